//go:build e2e

package e2e

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/certificates"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
)

// ports are those of the tenant's components: of its block on the host network, else the usual ones and the one that is
// exposed.
func (t *tenant) ports(ctx context.Context) ports.Ports {
	GinkgoHelper()
	hosting := t.controlPlane(ctx).Spec.Hosting
	if hosting.OnPodNetwork() {
		return ports.OnPodNetwork(t.exposedPort(ctx))
	}
	Expect(hosting.Ports.First).NotTo(BeZero(), "%s has no block of host ports", t.ObjectKey)
	return ports.Of(hosting.Ports.First)
}

// exposedPort is where the Service of API servers on the pod network is reached.
func (t *tenant) exposedPort(ctx context.Context) int32 {
	GinkgoHelper()
	service := &corev1.Service{}
	get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: names.Object(t.Name, names.KubeAPIServer)}, service)
	Expect(service.Spec.Ports).To(HaveLen(1), "ports of Service %s", service.Name)
	if service.Spec.Type == corev1.ServiceTypeNodePort {
		return service.Spec.Ports[0].NodePort
	}
	return service.Spec.Ports[0].Port
}

// advertised are the addresses that lead to API servers, and that workers know: one that all share, or those of the nodes
// that they run on.
func (t *tenant) advertised(ctx context.Context) []string {
	GinkgoHelper()
	spec, port := t.controlPlane(ctx).Spec, t.ports(ctx).APIServer
	var hosts []string
	switch {
	case spec.Hosting.OnPodNetwork() && spec.Hosting.Exposure.Type != controlplanev1.ExposureNodePort:
		hosts = []string{spec.ControlPlaneEndpoint.Host}
	case spec.KubeAPIServer.IsDeployment():
		pods, err := t.pods(ctx, names.KubeAPIServer)
		Expect(err).NotTo(HaveOccurred())
		for i := range pods {
			hosts = append(hosts, pods[i].Status.HostIP)
		}
	default:
		for _, node := range env.hostNodes(ctx) {
			hosts = append(hosts, internalIP(&node))
		}
	}
	slices.Sort(hosts)
	var addresses []string
	for _, host := range slices.Compact(hosts) {
		addresses = append(addresses, address(host, port))
	}
	return addresses
}

// expectReached asks the tenant's API at each address that its Service kubernetes names.
func (t *tenant) expectReached(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		g.Expect(conditions.IsTrue(t.controlPlane(ctx), conditionsv1.AvailableCondition)).To(BeTrue())
		slice, err := t.api.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(slice.Ports).To(HaveLen(1))
		g.Expect(slice.Endpoints).NotTo(BeEmpty())
		for _, endpoint := range slice.Endpoints {
			config := rest.CopyConfig(t.access)
			config.Host = "https://" + address(endpoint.Addresses[0], *slice.Ports[0].Port)
			config.ServerName = certificates.TenantServerName // Certificates name no node.
			api, err := kubernetes.NewForConfig(config)
			g.Expect(err).NotTo(HaveOccurred())
			_, err = api.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred(), "at %s", config.Host)
		}
	}).WithTimeout(creation).Should(Succeed())
}
