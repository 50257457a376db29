//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	statsv1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
)

// Sizes of volumes: the first, one that the storage has, and one that it has not.
const (
	volumeSize  = "1Gi"
	largerSize  = "2Gi"
	refusedSize = "9Gi"
	lastSize    = "3Gi"
)

const (
	// csiVolumes is the StorageClass of volumes that grow.
	csiVolumes = "csi-volumes"
	// severalTries is how long a refusal has to be told: a kubelet and the resizer try again within seconds at first, and once a minute later.
	severalTries = 90 * time.Second
	// grown bounds the wait for a size. After a refusal a kubelet waits for two minutes before it tries again, may try the former size once
	// more, and looks at the sizes of volumes once a minute.
	grown = 10 * time.Minute
)

var _ = Describe("The volumes of an etcd", Label(full, upgrades), func() {
	It("grow while its members go on, and a size that the storage does not have is taken back", Label("grown"), func(ctx SpecContext) {
		requireLab()
		installHostAddon(ctx, artifacts.EnsureCSIVolumes)
		t := newTenant("grown", "v1.36.3", map[string]string{
			"ETCD_STORAGE_CLASS_NAME": csiVolumes, "ETCD_STORAGE_SIZE": volumeSize, "ETCD_EVENTS_STORAGE_SIZE": volumeSize,
		})
		t.edit = func(controlPlane *controlplanev1.KOKControlPlane) {
			quota := resource.MustParse("512Mi")
			controlPlane.Spec.Etcd.Data.QuotaBackendSize, controlPlane.Spec.Etcd.Events.QuotaBackendSize = &quota, &quota
		}
		DeferCleanup(func(ctx SpecContext) {
			if !settings.keep {
				t.remove(ctx)
				expectNoCSIVolumes(ctx) // Who removes them goes next.
			}
		}, NodeTimeout(2*creation))
		t.create(ctx)
		t.expectVolumes(ctx, volumeSize)
		before := t.snapshot(ctx)
		journals := t.startJournals(ctx, "grown")

		began := time.Now()
		t.setVolumeSize(ctx, largerSize)
		t.expectVolumes(ctx, largerSize)
		figure("volumes_grown_seconds", fmt.Sprintf("%.1f", time.Since(began).Seconds()), "s for three members")

		t.setVolumeSize(ctx, refusedSize)
		told := And(ContainSubstring("spec.etcd.data.storage.size is "+refusedSize), ContainSubstring("the storage has no more than"))
		Eventually(ctx, t.reconciled).WithArguments(ctx).WithTimeout(creation).Should(told, "Reconciled names the field, and what the storage says")
		Consistently(ctx, t.reconciled).WithArguments(ctx).WithTimeout(severalTries).Should(told, "while the resizer tries again and again")
		env.log.Print("Reconciled: %s", t.reconciled(ctx))
		t.setVolumeSize(ctx, lastSize)
		t.expectVolumes(ctx, lastSize)

		t.expectAllWell(ctx, env.client)
		Expect(t.snapshot(ctx)).To(Equal(before), "pods that restarted")
		t.expectNothingLost(ctx, "volumes_grown", journals)
	}, SpecTimeout(5*creation+3*grown))
})

// reconciled is the message of the condition Reconciled.
func (t *tenant) reconciled(ctx context.Context) string {
	GinkgoHelper()
	condition := conditions.Get(t.controlPlane(ctx), conditionsv1.ReconciledCondition)
	if condition == nil {
		return ""
	}
	return condition.Message
}

// expectNoCSIVolumes waits until the provisioner has removed all volumes.
func expectNoCSIVolumes(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		all := &corev1.PersistentVolumeList{}
		g.Expect(env.client.List(ctx, all)).To(Succeed())
		for _, volume := range all.Items {
			g.Expect(volume.Spec.StorageClassName).NotTo(Equal(csiVolumes), "volume %s is left", volume.Name)
		}
	}).WithTimeout(creation).Should(Succeed())
}

// setVolumeSize asks for another size of the volumes of the data etcd.
func (t *tenant) setVolumeSize(ctx context.Context, size string) {
	GinkgoHelper()
	change := fmt.Sprintf(`{"spec":{"etcd":{"data":{"storage":{"size":%q}}}}}`, size)
	Expect(env.client.Patch(ctx, t.controlPlane(ctx), client.RawPatch(types.MergePatchType, []byte(change)))).To(Succeed())
}

// expectVolumes waits until all volumes of the data etcd have a size: as their claims tell, and as kubelets see it in members' pods.
func (t *tenant) expectVolumes(ctx context.Context, size string) {
	GinkgoHelper()
	want := resource.MustParse(size)
	Eventually(ctx, func(g Gomega) {
		claims := &corev1.PersistentVolumeClaimList{}
		g.Expect(env.client.List(ctx, claims, client.InNamespace(t.Namespace), client.MatchingLabels(names.ComponentLabels(t.ObjectKey, names.EtcdData)))).To(Succeed())
		g.Expect(claims.Items).To(HaveLen(t.wantedPods(ctx)[names.EtcdData]))
		for _, claim := range claims.Items {
			got := claim.Status.Capacity[corev1.ResourceStorage]
			g.Expect(got.Cmp(want)).To(BeZero(), "claim %s has %s", claim.Name, got.String())
		}
		pods, err := t.pods(ctx, names.EtcdData)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(pods).To(HaveLen(len(claims.Items)))
		for _, pod := range pods {
			g.Expect(seenByKubelet(ctx, &pod)).To(BeEquivalentTo(want.Value()), "the volume in pod %s", pod.Name)
		}
	}).WithTimeout(grown).Should(Succeed(), "volumes of %s", size)
}

// seenByKubelet is the size, in bytes, of the volume with the data of a pod, as its kubelet last saw it: once a minute.
func seenByKubelet(ctx context.Context, pod *corev1.Pod) (uint64, error) {
	answer, err := must(kubernetes.NewForConfig(env.config)).CoreV1().RESTClient().Get().Resource("nodes").Name(pod.Spec.NodeName).SubResource("proxy").Suffix("stats/summary").DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	summary := statsv1.Summary{}
	if err := json.Unmarshal(answer, &summary); err != nil {
		return 0, err
	}
	for _, of := range summary.Pods {
		if of.PodRef.UID != string(pod.UID) {
			continue
		}
		for _, volume := range of.VolumeStats {
			if volume.PVCRef != nil && volume.CapacityBytes != nil {
				return *volume.CapacityBytes, nil
			}
		}
	}
	return 0, fmt.Errorf("kubelet of %s tells nothing of a volume of pod %s", pod.Spec.NodeName, pod.Name)
}
