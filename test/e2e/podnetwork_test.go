//go:build e2e

package e2e

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/workers"
)

// A short journey; the long one in every mode is in modes_test.go.
var _ = Describe("A tenant on the pod network, not exposed, with a number of API servers (A6)", Ordered, Label(gating), func() {
	t := newTenant("not-exposed", "v1.36.3", nil)
	removeAfter(t)

	It("is made and healthy", func(ctx SpecContext) {
		t.createOnPodNetwork(ctx, controlplanev1.ExposureNone, controlplanev1.APIServerDeployment)
		version, err := t.api.Discovery().ServerVersion()
		Expect(err).NotTo(HaveOccurred())
		Expect(version.GitVersion).To(Equal(t.version))
	}, NodeTimeout(3*creation))

	It("takes no port of a host, and is behind policies", func(ctx SpecContext) {
		t.expectOffHosts(ctx)
	})

	It("has members of etcd on hosts of their own", func(ctx SpecContext) {
		members, err := t.pods(ctx, names.EtcdData)
		Expect(err).NotTo(HaveOccurred())
		hosts := map[string]bool{}
		for _, member := range members {
			hosts[member.Spec.NodeName] = true
		}
		Expect(hosts).To(HaveLen(3))
	})

	It("is reached where its API servers say that they are", func(ctx SpecContext) {
		t.expectReached(ctx)
	})

	It("leaves nothing behind", func(ctx SpecContext) { t.expectLeavesNothing(ctx) }, NodeTimeout(2*join))
})

// createOnPodNetwork makes a control plane on the pod network, alone.
func (t *tenant) createOnPodNetwork(ctx context.Context, exposure controlplanev1.ExposureType, workload controlplanev1.APIServerWorkload) {
	GinkgoHelper()
	t.mode = mode{exposure: exposure, workload: workload}
	t.remove(ctx)
	Expect(env.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.Namespace}})).To(Succeed())
	t.apply(ctx, func(c *controlplanev1.KOKControlPlane) {
		t.makeSingle(c)
		c.Spec.Etcd.Data.Replicas = ptr.To[int32](3)
		t.mode.edit(c)
	})
	t.expectHealthy(ctx)
	t.connect(ctx)
}

// expectOffHosts sees to it that the tenant takes no port of a host, and that a policy is in front of each component.
func (t *tenant) expectOffHosts(ctx context.Context) {
	GinkgoHelper()
	pods, err := t.pods(ctx, "")
	Expect(err).NotTo(HaveOccurred())
	for _, pod := range pods {
		Expect(pod.Spec.HostNetwork).To(BeFalse(), pod.Name)
		for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			for _, port := range container.Ports {
				Expect(port.HostPort).To(BeZero(), "port %s of %s", port.Name, pod.Name)
			}
		}
	}
	claims := &corev1.ConfigMapList{}
	listAll(ctx, claims, client.InNamespace(manager.Namespace), client.MatchingLabels(names.ComponentLabels(t.ObjectKey, ports.Component)))
	Expect(claims.Items).To(BeEmpty(), "claims of ports")
	policies := &networkingv1.NetworkPolicyList{}
	listAll(ctx, policies, client.InNamespace(t.Namespace), client.MatchingLabels(names.Labels(t.ObjectKey)))
	Expect(policies.Items).To(HaveLen(len(componentNames)))
}

// expectLeavesNothing deletes the tenant with its workers, and looks for what is left of it.
func (t *tenant) expectLeavesNothing(ctx context.Context) {
	GinkgoHelper()
	t.delete(ctx)
	t.forgetHosts(ctx)
	t.expectNothingLeft(ctx)
	Eventually(ctx, func() []corev1.PersistentVolume { return t.volumes(ctx) }).WithTimeout(deletionTime).Should(BeEmpty())
}

// forgetHosts takes back what a person made for workers: known hosts and their key.
func (t *tenant) forgetHosts(ctx context.Context) {
	GinkgoHelper()
	for _, host := range t.hosts(ctx) {
		expectClean(ctx, &host)
	}
	Expect(env.client.DeleteAllOf(ctx, &infrav1.IDCHost{}, client.InNamespace(t.Namespace))).To(Succeed())
	key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: workers.KeySecret}}
	Expect(client.IgnoreNotFound(env.client.Delete(ctx, key))).To(Succeed())
}
