//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/netip"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// behindBalancer are the specs of a tenant with a worker, whose API servers share the address of a load balancer.
func behindBalancer(t *tenant) {
	It("is known by the load balancer's address to Cluster API, people and workers", func(ctx SpecContext) {
		endpoint := t.controlPlane(ctx).Spec.ControlPlaneEndpoint
		service := &corev1.Service{}
		get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: names.Object(t.Name, names.KubeAPIServer)}, service)
		Expect(service.Status.LoadBalancer.Ingress).To(ConsistOf(HaveField("IP", endpoint.Host)))
		first, last := env.lab.BalancedAddresses()
		given, err := netip.ParseAddr(endpoint.Host)
		Expect(err).NotTo(HaveOccurred())
		Expect(given.Less(first) || last.Less(given)).To(BeFalse(), "%s was given, %s to %s are there to give", given, first, last)

		Expect(t.cluster(ctx).Spec.ControlPlaneEndpoint).To(And(HaveField("Host", endpoint.Host), HaveField("Port", endpoint.Port)))
		Expect(t.access.Host).To(Equal("https://" + t.balanced(ctx)))
		t.expectBalanced(ctx, endpoint)
	}, SpecTimeout(creation))

	It("keeps its address and its workers while one API server after the other is killed", func(ctx SpecContext) {
		endpoint := t.controlPlane(ctx).Spec.ControlPlaneEndpoint
		t.killAPIServers(ctx, func() { t.expectBalanced(ctx, endpoint) })
		Expect(t.quickstart().Hello(ctx)).To(Succeed())
	}, SpecTimeout(4*creation))

	It("keeps its address when an API server goes to another host, loses no write and fails no request", func(ctx SpecContext) {
		endpoint := t.controlPlane(ctx).Spec.ControlPlaneEndpoint
		pods, err := t.pods(ctx, names.KubeAPIServer)
		Expect(err).NotTo(HaveOccurred())
		left := pods[0].Spec.NodeName
		journals := t.startJournals(ctx, "moved", t.worker(ctx))
		cordon(ctx, left)
		// The budget may still count what was killed.
		Eventually(ctx, func() error {
			return env.clientset.PolicyV1().Evictions(t.Namespace).Evict(ctx, &policyv1.Eviction{
				ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: pods[0].Name},
			})
		}).WithTimeout(creation).Should(Succeed())
		Eventually(ctx, func(g Gomega) {
			now, err := t.pods(ctx, names.KubeAPIServer)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(now).NotTo(ContainElement(HaveField("Spec.NodeName", left)))
		}).WithTimeout(creation).Should(Succeed(), "API servers on %s", left)
		t.expectHealthy(ctx)
		t.expectNothingLost(ctx, "balanced_move", journals)
		t.expectBalanced(ctx, endpoint)
	}, SpecTimeout(3*creation))
}

// balanced is where all API servers of the tenant are reached.
func (t *tenant) balanced(ctx context.Context) string {
	GinkgoHelper()
	endpoint := t.controlPlane(ctx).Spec.ControlPlaneEndpoint
	return address(endpoint.Host, endpoint.Port)
}

// expectBalanced waits until the tenant and its worker know one address, which leads to API servers: the endpoint's.
func (t *tenant) expectBalanced(ctx context.Context, endpoint controlplanev1.APIEndpoint) {
	GinkgoHelper()
	Expect(t.controlPlane(ctx).Spec.ControlPlaneEndpoint).To(Equal(endpoint))
	t.expectReached(ctx)
	slice, err := t.api.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(slice.Endpoints).To(ConsistOf(HaveField("Addresses", ConsistOf(endpoint.Host))))
	Expect(slice.Ports).To(ConsistOf(HaveField("Port", HaveValue(Equal(endpoint.Port)))))
	expectBackends(ctx, t.worker(ctx), t.balanced(ctx))
}

// cordon keeps new pods away from a node until the spec ends.
func cordon(ctx context.Context, node string) {
	GinkgoHelper()
	set := func(ctx context.Context, unschedulable bool) {
		GinkgoHelper()
		patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, unschedulable))
	}
	DeferCleanup(func(ctx SpecContext) { set(ctx, false) })
	set(ctx, true)
}
