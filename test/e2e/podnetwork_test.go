//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/workers"
)

// What is gating is a short journey by itself.
var _ = Describe("A tenant on the pod network", Label(full), func() {
	Describe("at a node port, an API server on every host node (A6)", Ordered, func() {
		t := newTenant("node-port", "v1.36.3", nil)
		removeAfter(t)
		onPodNetwork(t, controlplanev1.APIServerDaemonSet, Label(), func(ctx context.Context) {
			t.createOnPodNetwork(ctx, controlplanev1.ExposureNodePort, controlplanev1.APIServerDaemonSet)
		})
	})
	Describe("not exposed, with a number of API servers (A6)", Ordered, func() {
		t := newTenant("not-exposed", "v1.36.3", nil)
		removeAfter(t)
		onPodNetwork(t, controlplanev1.APIServerDeployment, Label(gating), func(ctx context.Context) {
			t.createOnPodNetwork(ctx, controlplanev1.ExposureNone, controlplanev1.APIServerDeployment)
		})
	})
	Describe("behind a load balancer, with a number of API servers (A6)", Ordered, func() {
		variables := single()
		variables["ETCD_REPLICAS"] = "3"
		variables["KUBE_PROXY_CONNTRACK"] = "None" // the lab's hosts share the machine's kernel
		t := newTenant("balanced", "v1.36.3", variables)
		t.workers, t.template = 1, &settings.podNetworkTemplate
		BeforeAll(func(ctx SpecContext) {
			requireLab()
			installMetalLB(ctx)
			removeWithHosts(t)
		}, NodeTimeout(building+creation))
		onPodNetwork(t, controlplanev1.APIServerDeployment, Label(), func(ctx context.Context) { t.createWithWorkers(ctx, 0) })
	})
})

// createOnPodNetwork makes a control plane on the pod network, alone.
func (t *tenant) createOnPodNetwork(ctx context.Context, exposure controlplanev1.ExposureType, workload controlplanev1.APIServerWorkload) {
	GinkgoHelper()
	t.remove(ctx)
	Expect(env.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.Namespace}})).To(Succeed())
	t.apply(ctx, func(c *controlplanev1.KOKControlPlane) {
		t.makeSingle(c)
		c.Spec.Etcd.Data.Replicas = ptr.To[int32](3)
		c.Spec.Hosting.NetworkMode, c.Spec.Hosting.Exposure.Type = controlplanev1.NetworkModePod, exposure
		c.Spec.KubeAPIServer.Workload = workload
	})
	t.expectHealthy(ctx)
	t.connect(ctx)
}

// onPodNetwork is the journey of a tenant: made, mended, scaled, reached and gone. The labels are those of a shorter one:
// made, reached and gone.
func onPodNetwork(t *tenant, workload controlplanev1.APIServerWorkload, short Labels, create func(context.Context)) {
	It("is made and healthy", short, func(ctx SpecContext) {
		create(ctx)
		version, err := t.api.Discovery().ServerVersion()
		Expect(err).NotTo(HaveOccurred())
		Expect(version.GitVersion).To(Equal(t.version))
	}, NodeTimeout(3*creation+join))

	It("takes no port of a host, and is behind policies", short, func(ctx SpecContext) {
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
	})

	It("has members of etcd on hosts of their own", short, func(ctx SpecContext) {
		members, err := t.pods(ctx, names.EtcdData)
		Expect(err).NotTo(HaveOccurred())
		hosts := map[string]bool{}
		for _, member := range members {
			hosts[member.Spec.NodeName] = true
		}
		Expect(hosts).To(HaveLen(3))
	})

	It("is reached where its API servers say that they are", short, func(ctx SpecContext) {
		t.expectReached(ctx)
	})

	if t.workers > 0 {
		behindBalancer(t)
	}

	It("gets back what is deleted", func(ctx SpecContext) {
		endpoint := t.controlPlane(ctx).Spec.ControlPlaneEndpoint
		all, err := env.inventory.Namespace(ctx, t.Namespace)
		Expect(err).NotTo(HaveOccurred())
		for _, object := range all {
			if !slices.Contains([]string{"Service", "NetworkPolicy", "DaemonSet", "Deployment", "PodDisruptionBudget"}, object.GetKind()) ||
				!metav1.IsControlledBy(object, t.controlPlane(ctx)) {
				continue
			}
			before, err := env.inventory.Get(ctx, object)
			Expect(err).NotTo(HaveOccurred())
			Expect(env.inventory.Client(object).Delete(ctx, object.GetName(), metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})).To(Succeed())
			Expect(comesBack(ctx, object, before, creation)).To(BeEmpty(), "%s, after its deletion", object)
		}
		t.expectHealthy(ctx)
		t.expectReached(ctx)
		Expect(t.controlPlane(ctx).Spec.ControlPlaneEndpoint).To(Equal(endpoint))
	}, NodeTimeout(5*creation))

	if workload == controlplanev1.APIServerDeployment {
		It("is scaled by its subresource", func(ctx SpecContext) {
			for _, replicas := range []int32{3, 2} {
				Expect(env.run(ctx, env.kubectl, "scale", "kokcontrolplane", t.Name, "--namespace", t.Namespace, fmt.Sprintf("--replicas=%d", replicas))).To(Succeed())
				t.expectHealthy(ctx)
				Expect(t.controlPlane(ctx).Status.ReadyReplicas).To(HaveValue(Equal(replicas)))
			}
		}, NodeTimeout(3*creation))
	}

	It("leaves nothing behind", short, func(ctx SpecContext) {
		t.delete(ctx)
		t.forgetHosts(ctx)
		Eventually(ctx, func() ([]string, error) { return t.left(ctx) }).WithTimeout(deletionTime).Should(BeEmpty(), t.Namespace)
		Eventually(ctx, func() []corev1.PersistentVolume { return t.volumes(ctx) }).WithTimeout(deletionTime).Should(BeEmpty())
	}, NodeTimeout(2*join))
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

// expectReached asks the tenant's API at each address that its Service kubernetes names.
func (t *tenant) expectReached(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		g.Expect(conditions.IsTrue(t.controlPlane(ctx), controlplanev1.AvailableCondition)).To(BeTrue())
		slice, err := t.api.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(slice.Ports).To(HaveLen(1))
		g.Expect(slice.Endpoints).NotTo(BeEmpty())
		for _, endpoint := range slice.Endpoints {
			config := rest.CopyConfig(t.access)
			config.Host = "https://" + address(endpoint.Addresses[0], *slice.Ports[0].Port)
			// Certificates name no node.
			config.ServerName = "kubernetes.default.svc"
			api, err := kubernetes.NewForConfig(config)
			g.Expect(err).NotTo(HaveOccurred())
			_, err = api.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred(), "at %s", config.Host)
		}
	}).WithTimeout(creation).Should(Succeed())
}
