//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// The control plane is newer than its workers, as in an upgrade, which it always comes first in.
var _ = Describe("Workers of older versions", Ordered, Label(full, onWorkers), func() {
	variables := single()
	variables["KUBE_PROXY_CONNTRACK"] = "None" // the lab's hosts share the machine's kernel
	t := newTenant("kubelets", "v1.36.3", variables)
	t.workers = 1
	var worker *host.Host

	BeforeAll(func(ctx SpecContext) {
		requireLab()
		removeWithHosts(t)
		t.createWithWorkers(ctx, 0)
		worker = t.worker(ctx)
	}, NodeTimeout(2*creation+join))

	for _, version := range artifacts.OlderVersions() {
		It("join with "+version+", and reach Services by their names", func(ctx SpecContext) {
			kubelet, err := os.ReadFile(builtVersion(ctx, version).Kubelet)
			Expect(err).NotTo(HaveOccurred())
			t.scale(ctx, 0)
			t.expectWorkers(ctx, 0)
			Expect(worker.WriteFile("/usr/local/bin/kubelet", kubelet, 0o755)).To(Succeed())
			patch(ctx, t.machineDeployment(), fmt.Sprintf(`{"spec":{"replicas":1,"template":{"spec":{"version":%q}}}}`, version))
			t.expectWorkers(ctx, 1)
			t.expectKubelets(ctx, version)
			Expect(t.quickstart().Hello(ctx)).To(Succeed())
		}, SpecTimeout(building+3*join))
	}
})

// expectKubelets sees to it that every worker runs kubelet of a version, as its Node says.
func (t *tenant) expectKubelets(ctx context.Context, version string) {
	GinkgoHelper()
	nodes, err := t.api.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(nodes.Items).To(HaveLen(t.workers), "Nodes")
	for _, node := range nodes.Items {
		Expect(node.Status.NodeInfo.KubeletVersion).To(Equal(version), "kubelet of Node %s", node.Name)
	}
}

// builtVersion is what a tenant of a version runs.
func builtVersion(ctx context.Context, version string) *artifacts.Kubernetes {
	GinkgoHelper()
	cache, err := artifacts.CacheDir()
	Expect(err).NotTo(HaveOccurred())
	built, err := artifacts.EnsureKubernetes(ctx, cache, version, func(step string) { env.log.Print("%s", step) })
	Expect(err).NotTo(HaveOccurred())
	return built
}
