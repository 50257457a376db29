//go:build e2e

package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
)

// installHostAddon gives the host cluster something that the lab's does not have, until the specs of a container end.
func installHostAddon(ctx context.Context, ensure func(ctx context.Context, cacheDir string, progress func(string)) (*artifacts.HostAddon, error)) {
	GinkgoHelper()
	cache, err := artifacts.CacheDir()
	Expect(err).NotTo(HaveOccurred())
	built, err := ensure(ctx, cache, func(step string) { env.log.Print("%s", step) })
	Expect(err).NotTo(HaveOccurred())
	for _, image := range built.Images {
		Expect(env.lab.LoadBuilt(ctx, image)).To(Succeed())
	}
	DeferCleanup(func(ctx SpecContext) {
		if settings.keep {
			return
		}
		Expect(env.run(ctx, env.kubectl, "delete", "--ignore-not-found", "--filename", built.Manifests)).To(Succeed())
	}, NodeTimeout(creation))
	Expect(env.run(ctx, env.kubectl, "apply", "--server-side", "--force-conflicts", "--filename", built.Manifests)).To(Succeed())
}

// installMetricsServer has autoscalers know what pods use.
func installMetricsServer(ctx context.Context) {
	GinkgoHelper()
	// cert-manager leaves the Secret of a Certificate that is deleted.
	DeferCleanup(func(ctx SpecContext) {
		if settings.keep {
			return
		}
		left := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "metrics-server-certificate"}}
		Expect(client.IgnoreNotFound(env.client.Delete(ctx, left))).To(Succeed())
	})
	installHostAddon(ctx, artifacts.EnsureMetricsServer)
}

// metalLBNamespace is that of MetalLB and of its configuration.
const metalLBNamespace = "metallb-system"

// installMetalLB has the host cluster's Services of type LoadBalancer get addresses of the data centre, for which one of
// the host nodes answers.
func installMetalLB(ctx context.Context) {
	GinkgoHelper()
	installHostAddon(ctx, artifacts.EnsureMetalLB)
	first, last := env.lab.BalancedAddresses()
	const pool = "lab"
	for kind, spec := range map[string]map[string]any{
		"IPAddressPool": {"addresses": []any{first.String() + "-" + last.String()}},
		"L2Advertisement": {
			"ipAddressPools": []any{pool}, "interfaces": []any{"eth0"},
			"nodeSelectors": []any{map[string]any{"matchLabels": map[string]any{controlplanev1.HostNodeLabel: "true"}}},
		},
	} {
		// Its webhook answers when its controller has made itself a certificate.
		Eventually(ctx, func() error {
			object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "metallb.io/v1beta1", "kind": kind, "spec": spec}}
			object.SetNamespace(metalLBNamespace)
			object.SetName(pool)
			return client.IgnoreAlreadyExists(env.client.Create(ctx, object))
		}).WithTimeout(creation).Should(Succeed(), kind)
	}
	Eventually(ctx, func(g Gomega) {
		speakers := &appsv1.DaemonSet{}
		g.Expect(env.client.Get(ctx, client.ObjectKey{Namespace: metalLBNamespace, Name: "speaker"}, speakers)).To(Succeed())
		g.Expect(speakers.Status.ObservedGeneration).To(Equal(speakers.Generation))
		g.Expect(int(speakers.Status.NumberReady)).To(Equal(len(env.hostNodes(ctx))), "who answer for addresses")
	}).WithTimeout(creation).Should(Succeed())
}
