//go:build e2e

package e2e

import (
	"context"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/mirror"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/providers"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/workers"
)

// siteContent is what mirrors of a site have for workers of Kubernetes versions, with this tree's own programs as its release.
func siteContent(ctx context.Context, versions ...string) mirror.Content {
	GinkgoHelper()
	Expect(env.run(ctx, "make", "bin/kok-software", "bin/kok-apiserver-lb")).To(Succeed())
	images := slices.Clone(env.workerImages)
	for image, program := range providers.OnWorkers(settings.programs, settings.registry, settings.tag) {
		images = append(images, artifacts.ProgramImage(image, program))
	}
	content, err := mirror.Prepare(ctx, GinkgoT().TempDir(), mirror.Sources{
		Kubernetes: versions, Programs: settings.programs, ReleaseVersion: settings.providerVersion, Images: images,
	}, func(step string) { env.log.Print("%s", step) })
	Expect(err).NotTo(HaveOccurred())
	return content
}

// startMirror starts a mirror, which runs until the specs of the container are over.
func startMirror(ctx context.Context, content mirror.Content) *mirror.Mirror {
	GinkgoHelper()
	m, err := mirror.Start(ctx, env.lab, content)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(m.Close()).To(Succeed()) })
	return m
}

// bareHosts gives the tenant so many hosts of each system, and nothing on them.
func (t *tenant) bareHosts(ctx context.Context, count int, systems ...string) (names []string) {
	GinkgoHelper()
	pool := &workers.Pool{Lab: env.lab, Client: env.client, Namespace: t.Namespace, Log: env.log}
	for _, system := range systems {
		hosts, err := pool.EnsureBare(ctx, system, count)
		Expect(err).NotTo(HaveOccurred())
		names = append(names, hosts...)
	}
	return names
}

// selfInstalling are the settings of machines that install what KOKSoftware describes, and pull images from the mirror.
func selfInstalling(m *mirror.Mirror, software bootstrapv1.SoftwareSpec) bootstrapv1.KOKConfigSpec {
	software.Mode = bootstrapv1.SoftwareDescribed
	return bootstrapv1.KOKConfigSpec{Software: software, RegistryMirrors: workers.RegistryMirrors(m)}
}

// describe makes the KOKSoftware of versions, as the mirror of the site has them; runc comes to Debian 13 as an OCI artifact.
func (t *tenant) describe(ctx context.Context, m *mirror.Mirror, versions ...string) {
	GinkgoHelper()
	for _, version := range versions {
		described, err := m.Software(ctx, t.Namespace, bootstrapv1.DefaultSoftwareByVersion, version)
		Expect(err).NotTo(HaveOccurred())
		Expect(m.AsArtifact(ctx, described, mirror.Runc)).To(Succeed())
		Expect(env.client.Create(ctx, described)).To(Succeed())
	}
}

// useSoftware has the Machines to come install what one KOKSoftware describes: with a template of its own, which says the same
// as that of the tenant otherwise.
func (t *tenant) useSoftware(ctx context.Context, m *mirror.Mirror, software *bootstrapv1.KOKSoftware) {
	GinkgoHelper()
	template := &bootstrapv1.KOKConfigTemplate{}
	get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: t.Name + "-workers"}, template)
	next := &bootstrapv1.KOKConfigTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: software.Name}, Spec: *template.Spec.DeepCopy()}
	wanted := selfInstalling(m, bootstrapv1.SoftwareSpec{Ref: bootstrapv1.SoftwareReference{Name: software.Name}})
	next.Spec.Template.Spec.Software, next.Spec.Template.Spec.RegistryMirrors = wanted.Software, wanted.RegistryMirrors
	Expect(env.client.Create(ctx, software)).To(Succeed())
	Expect(env.client.Create(ctx, next)).To(Succeed())
	patch(ctx, t.machineDeployment(), `{"spec":{"template":{"spec":{"bootstrap":{"configRef":{"name":"`+next.Name+`"}}}}}}`)
}

// bareState is what a bare host has, by what it is: files with their content, units, packages and users. Folders are left out,
// for an empty one changes nothing, and so is what changes by itself: logs, and what runs.
func bareState(ctx context.Context, h *host.Host) map[string]string {
	GinkgoHelper()
	look := func(argv ...string) string {
		output, err := h.Exec(ctx, nil, argv...)
		// find ends with an error for each path that is not there.
		if argv[0] != "find" {
			Expect(err).NotTo(HaveOccurred(), "%q on %s", argv, h.Name)
		}
		lines := strings.Split(strings.TrimSpace(string(output)), "\n")
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	folders := []string{
		"find", "/etc", "/usr", "/opt", "/root", "/var/lib/cloud", "/var/lib/cni", "/var/lib/containerd", "/var/lib/kubelet",
		"/var/lib/kok-infrastructure", "/var/lib/kok-apiserver-lb", "/run/containerd", "/run/cluster-api", "/run/systemd/system", "-not", "-type", "d",
		// cloud-init makes this one where root has none, and leaves it empty: the documents say that it stays.
		"-not", "(", "-path", "/root/.ssh/authorized_keys", "-empty", ")",
	}
	state := map[string]string{
		"files":      look(append(folders, "-printf", `%p %y %m %U:%G %l\n`)...),
		"contents":   look(append(slices.Clone(folders), "-type", "f", "-not", "-path", "/usr/*", "-exec", "sha256sum", "{}", "+")...),
		"unit files": look("systemctl", "list-unit-files", "--no-legend", "--no-pager"),
		"failed":     look("systemctl", "list-units", "--plain", "--no-legend", "--state=failed"),
		"packages":   look("dpkg-query", "--show", "--showformat=${Package} ${Version} ${db:Status-Abbrev}\n"),
		"users":      look("getent", "passwd"),
		"name":       look("uname", "-n"),
		"links":      look("ip", "-brief", "link"),
		"tables":     look("nft", "list", "tables"),
		"forwarding": look("cat", "/proc/sys/net/ipv4/ip_forward"),
	}
	Expect(state["files"]).To(ContainSubstring("/etc/hostname "), h.Name)
	return state
}

// expectFree waits until a host is free.
func expectFree(ctx context.Context, free *infrav1.IDCHost) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		get(ctx, client.ObjectKeyFromObject(free), free)
		condition := conditions.Get(free, infrav1.AvailableCondition)
		g.Expect(condition).NotTo(BeNil())
		g.Expect(condition.Reason).To(Equal(infrav1.FreeReason), "%s: %s", free.Name, condition.Message)
	}).WithTimeout(join).Should(Succeed())
}

// expectState waits until a host is what it was before.
func expectState(ctx context.Context, h *host.Host, before map[string]string) {
	GinkgoHelper()
	after := map[string]string{}
	Eventually(ctx, func(g Gomega) {
		after = bareState(ctx, h)
		for what := range before {
			g.Expect(difference(before[what], after[what])).To(BeEmpty(), "%s of %s", what, h.Name)
		}
	}).WithTimeout(join).Should(Succeed())
}

// difference are the lines that only one of two texts has, each with which one.
func difference(before, after string) (lines []string) {
	was, is := sets.New(strings.Split(before, "\n")...), sets.New(strings.Split(after, "\n")...)
	for _, line := range sets.List(was.Difference(is)) {
		lines = append(lines, "before: "+line)
	}
	for _, line := range sets.List(is.Difference(was)) {
		lines = append(lines, "now: "+line)
	}
	return lines
}
