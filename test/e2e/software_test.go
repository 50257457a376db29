//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/mirror"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/workers"
)

// oneByOne has a MachineDeployment of a topology replace its Machines without a host more: a host is given back before it is
// used again.
const oneByOne = `{"spec":{"topology":{"workers":{"machineDeployments":[{"class":"worker","name":"workers","replicas":%d,` +
	`"rollout":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":0,"maxUnavailable":1}}}}]}}}}`

// Two hosts with nothing but Debian, each with another one, stand in a site whose mirror has all that workers need.
var _ = Describe("Machines that install their software", Ordered, Label(full, selfInstalled), func() {
	const before, after = "v1.35.4", "v1.36.3"
	systems := []string{"debian-12", "debian-13"}
	t := newTenant("software", before, single())
	t.workers, t.template, t.class = len(systems), &settings.topologyTemplate, &settings.class
	var site *mirror.Mirror
	var hosts []string
	var pushed int // requests for the artifact before machines ask for it

	BeforeAll(func(ctx SpecContext) {
		requireLab()
		removeWithHosts(t)
		site = startMirror(ctx, siteContent(ctx, before, after))
		variables, err := workers.BareVariables(site)
		Expect(err).NotTo(HaveOccurred())
		maps.Copy(t.variables, variables)
		t.prepare = func(ctx context.Context) {
			t.describe(ctx, site, before, after)
			pushed = site.Asked(mirror.ArtifactPath(mirror.Runc))
		}
	}, NodeTimeout(2*building))

	It("are made of bare hosts with Debian 12 and 13 by one template", func(ctx SpecContext) {
		t.create(ctx)
		hosts = t.bareHosts(ctx, 1, systems...)
		for _, name := range hosts {
			expectBare(ctx, labHost(name))
		}
		patch(ctx, t.cluster(ctx), fmt.Sprintf(oneByOne, t.workers))
		Expect(t.quickstart().InstallNetwork(ctx, env.network)).To(Succeed())
		t.expectWorkers(ctx, t.workers)
		t.expectKubelets(ctx, before)
		t.expectSystems(ctx, hosts)
		figure("software_distributions", len(systems), "distributions of workers that installed their software")
		Expect(site.Asked(mirror.PathOf("https://dl.k8s.io/release/"+before))).To(BeNumerically(">=", len(hosts)), "requests for kubelet")
		Expect(site.Asked(mirror.ArtifactPath(mirror.Runc))).To(BeNumerically(">", pushed), "requests for the artifact with runc")
	}, SpecTimeout(building+2*creation+2*join))

	It("have what the variant for their distribution says", func(ctx SpecContext) {
		for _, name := range hosts {
			h := labHost(name)
			path, err := h.Exec(ctx, nil, "which", mirror.Balancer)
			Expect(err).NotTo(HaveOccurred())
			_, notPackaged := h.Exec(ctx, nil, "dpkg-query", "--status", mirror.Balancer)
			if h.System == "debian-12" {
				Expect(notPackaged).NotTo(HaveOccurred(), "package %s on %s", mirror.Balancer, name)
				Expect(string(path)).To(Equal("/usr/bin/" + mirror.Balancer + "\n"))
			} else {
				Expect(notPackaged).To(HaveOccurred(), "package %s on %s", mirror.Balancer, name)
				Expect(string(path)).To(Equal("/usr/local/bin/" + mirror.Balancer + "\n"))
			}
		}
	})

	It("get another kubelet by one edit of the Cluster's version, on the same hosts, and no request fails", func(ctx SpecContext) {
		old := t.machineNames(ctx)
		journals := t.startJournals(ctx, "software")
		began := time.Now()
		patch(ctx, t.cluster(ctx), fmt.Sprintf(`{"spec":{"topology":{"version":%q}}}`, after))
		Eventually(ctx, func(g Gomega) {
			machines := t.machines(ctx)
			g.Expect(machines).To(HaveLen(t.workers))
			for _, machine := range machines {
				g.Expect(machine.Spec.Version).To(Equal(after))
				g.Expect(old).NotTo(ContainElement(machine.Name))
			}
		}).WithTimeout(2*upgrade).Should(Succeed(), "workers of %s", after)
		t.expectWorkers(ctx, t.workers)
		figure("software_upgrade_seconds", fmt.Sprintf("%.1f", time.Since(began).Seconds()), "s to "+after)
		t.expectTopology(ctx)
		t.expectHealthy(ctx)
		t.expectProxies(ctx, after)
		t.expectNothingLost(ctx, "software_upgrade", journals)
		t.expectKubelets(ctx, after)
		t.expectSystems(ctx, hosts)
	}, SpecTimeout(2*upgrade+3*creation+4*join))

	It("leave bare hosts behind, but for packages of their distribution", func(ctx SpecContext) {
		t.delete(ctx)
		free := t.hosts(ctx)
		Expect(free).To(HaveLen(len(hosts)))
		for i := range free {
			expectFree(ctx, &free[i])
			h := labHost(free[i].Name)
			for _, program := range []string{"containerd", "runc", "kubelet"} {
				_, err := h.Exec(ctx, nil, "which", program)
				Expect(err).To(HaveOccurred(), "%s on %s", program, h.Name)
			}
		}
	}, SpecTimeout(2*join))
})

// expectBare expects a host on which nothing of a worker is.
func expectBare(ctx context.Context, h *host.Host) {
	GinkgoHelper()
	for _, program := range []string{"containerd", "runc", "kubelet", mirror.Balancer} {
		_, err := h.Exec(ctx, nil, "which", program)
		Expect(err).To(HaveOccurred(), "%s on %s, which has to be bare", program, h.Name)
	}
}

// expectSystems expects that each Node is one of the hosts, that its system is the host's, and that its container runtime is the
// one of the mirror.
func (t *tenant) expectSystems(ctx context.Context, hosts []string) {
	GinkgoHelper()
	nodes, err := t.api.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	images, used := sets.New[string](), sets.New[string]()
	for i := range nodes.Items {
		node := &nodes.Items[i]
		images.Insert(node.Status.NodeInfo.OSImage)
		Expect(node.Status.NodeInfo.ContainerRuntimeVersion).To(HavePrefix("containerd://2."), node.Name)
		used.Insert(internalIP(node))
	}
	Expect(images).To(HaveLen(len(hosts)), "systems of Nodes: %v", images)
	for _, name := range hosts {
		Expect(used.Has(labHost(name).Address.String())).To(BeTrue(), "%s is a Node", name)
	}
}

// softwareResult is how the last run of kok-software ended on a host.
func softwareResult(ctx context.Context, h *host.Host) (result software.Result) {
	GinkgoHelper()
	content, err := h.Exec(ctx, nil, "cat", software.ResultFile)
	Expect(err).NotTo(HaveOccurred())
	Expect(json.Unmarshal(content, &result)).To(Succeed())
	return result
}

// componentOf is a component of a KOKSoftware.
func componentOf(described *bootstrapv1.KOKSoftware, name string) *bootstrapv1.SoftwareComponent {
	GinkgoHelper()
	i := slices.IndexFunc(described.Spec.Components, func(c bootstrapv1.SoftwareComponent) bool { return c.Name == name })
	Expect(i).To(BeNumerically(">=", 0), "component %s", name)
	return &described.Spec.Components[i]
}
