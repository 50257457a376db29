//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
)

// deletionTime bounds a deletion: ten times what is usual.
const deletionTime = 2 * time.Minute

// volumesDirectory is where the lab's hosts keep local PersistentVolumes, podsDirectory what their
// kubelets keep of pods.
const (
	volumesDirectory = "/var/lib/local-volumes"
	podsDirectory    = "/var/lib/kubelet/pods"
)

// deletion deletes both tenants and looks for what they left.
func (j *journey) deletion() {
	var pods, volumes sets.Set[string]

	It("is quick", func(ctx SpecContext) {
		pods, volumes = sets.New[string](), sets.New[string]()
		for _, t := range []*tenant{j.a, j.b} {
			running, err := t.pods(ctx, "")
			Expect(err).NotTo(HaveOccurred())
			for _, pod := range running {
				pods.Insert(string(pod.UID))
			}
			for _, volume := range t.volumes(ctx) {
				volumes.Insert(volume.Name)
			}
		}
		Expect(volumes.Len()).To(Equal(8), "PersistentVolumes of 6 and of 2 members of etcd")
		began := time.Now()
		j.a.delete(ctx)
		j.a.expectNothingLeft(ctx)
		figure("delete_seconds", fmt.Sprintf("%.1f", time.Since(began).Seconds()), "s")
		j.b.delete(ctx)
	})

	It("leaves nothing behind", func(ctx SpecContext) {
		for _, t := range []*tenant{j.a, j.b} {
			t.expectNothingLeft(ctx)
			Eventually(ctx, func() []corev1.PersistentVolume { return t.volumes(ctx) }).WithTimeout(deletionTime).Should(BeEmpty())
		}
	})

	It("leaves nothing on the hosts", func(ctx SpecContext) {
		hosts, err := requireLab().Hosts()
		Expect(err).NotTo(HaveOccurred())
		for _, host := range hosts {
			Eventually(ctx, func(g Gomega) {
				g.Expect(entries(host.DiskPath(volumesDirectory)).Intersection(volumes).UnsortedList()).To(BeEmpty(), "data of volumes")
				g.Expect(entries(host.DiskPath(podsDirectory)).Intersection(pods).UnsortedList()).To(BeEmpty(), "directories of pods")
				mounts, err := host.Exec(ctx, nil, "cat", "/proc/self/mounts")
				g.Expect(err).NotTo(HaveOccurred())
				for pod := range pods {
					g.Expect(strings.Contains(string(mounts), pod)).To(BeFalse(), "mounts of pod %s", pod)
				}
			}).WithTimeout(deletionTime).Should(Succeed(), host.Name)
		}
	})
}

// volumes are the PersistentVolumes of the tenant.
func (t *tenant) volumes(ctx context.Context) []corev1.PersistentVolume {
	GinkgoHelper()
	all := &corev1.PersistentVolumeList{}
	listAll(ctx, all)
	var volumes []corev1.PersistentVolume
	for _, volume := range all.Items {
		if volume.Spec.ClaimRef != nil && volume.Spec.ClaimRef.Namespace == t.Namespace {
			volumes = append(volumes, volume)
		}
	}
	return volumes
}

// delete deletes the Cluster and returns how long it took until it and its pods were gone. Other objects may go later.
func (t *tenant) delete(ctx context.Context) time.Duration {
	GinkgoHelper()
	// Without its finalizer, such as while Cluster API starts again, a Cluster would go alone, and leave its control plane.
	Eventually(ctx, t.cluster).WithArguments(ctx).WithTimeout(creation).Should(HaveField("Finalizers", ContainElement(clusterv1.ClusterFinalizer)))
	began := time.Now()
	Expect(env.client.Delete(ctx, t.cluster(ctx))).To(Succeed())
	Eventually(ctx, func(g Gomega) {
		pods, err := t.pods(ctx, "")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(pods).To(BeEmpty(), "pods")
		g.Expect(env.client.Get(ctx, t.ObjectKey, t.clusterObject())).To(MatchError(ContainSubstring("not found")))
	}).WithTimeout(deletionTime).Should(Succeed(), "deletion of %s", t.ObjectKey)
	took := time.Since(began)
	env.log.Print("%s was gone %.1f s after its deletion", t.ObjectKey, took.Seconds())
	return took
}

// expectNothingLeft waits until no object of the tenant is left, its claim of host ports included.
func (t *tenant) expectNothingLeft(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		g.Expect(t.left(ctx)).To(BeEmpty(), "objects")
		claims := &corev1.ConfigMapList{}
		g.Expect(env.client.List(ctx, claims, client.InNamespace(manager.Namespace),
			client.MatchingLabels(names.ComponentLabels(t.ObjectKey, ports.Component)))).To(Succeed())
		g.Expect(claims.Items).To(BeEmpty(), "claims of ports")
	}).WithTimeout(deletionTime).Should(Succeed(), "what is left of %s", t.ObjectKey)
}

// left is what is left in the tenant's namespace, but for what every namespace has and for the record of
// what happened.
func (t *tenant) left(ctx context.Context) ([]string, error) {
	objects, err := env.inventory.Namespace(ctx, t.Namespace)
	var left []string
	for _, object := range objects {
		switch name := object.String(); {
		case name == "configmaps/kube-root-ca.crt", name == "serviceaccounts/default":
		// The access of another management cluster is a person's.
		case name == "serviceaccounts/kok-host-cluster", name == "rolebindings.rbac.authorization.k8s.io/kok-host-cluster":
		case object.GetKind() == "Event":
		default:
			left = append(left, name)
		}
	}
	return left, err
}

// entries are the names in a directory; none when it does not exist.
func entries(directory string) sets.Set[string] {
	names := sets.New[string]()
	list, err := os.ReadDir(directory)
	if err != nil && !os.IsNotExist(err) {
		Expect(err).NotTo(HaveOccurred())
	}
	for _, entry := range list {
		names.Insert(entry.Name())
	}
	return names
}
