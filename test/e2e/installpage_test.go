//go:build e2e

package e2e

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/docs/steps"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/lab"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/shell"
)

// Every command of the first section of docs/install.md is run as it is written, by one shell, for a site that has nothing of ours;
// only the values of step 1 are the site's own. The site is in installsite_test.go.
var _ = Describe("The page of the installation", Ordered, Label(full, installPage), func() {
	documented, err := steps.Documented()
	s := &site{}
	r := &reader{site: s}

	BeforeAll(func(ctx SpecContext) {
		requireLab()
		expectNobodyElse(ctx)
		expectRoomForKubelets()
		Expect(err).NotTo(HaveOccurred())
		s.values = steps.Values(documented[0].Commands[0])
		s.prepare(ctx)
		r.start()
		r.commit = r.head(ctx)
	}, NodeTimeout(2*building+4*creation))

	for i, step := range documented {
		It("works in step "+step.Title, func(ctx SpecContext) {
			if i == 0 {
				step.Commands[0], err = steps.WithValues(step.Commands[0], s.own(ctx))
				Expect(err).NotTo(HaveOccurred())
			}
			r.follow(ctx, step)
		}, SpecTimeout(2*building))
	}

	It("has led to two workers of the version that step 1 names", func(ctx SpecContext) {
		s.tenant.connect(ctx)
		s.tenant.expectHealthy(ctx)
		s.tenant.expectWorkers(ctx, s.tenant.workers)
		s.tenant.expectKubelets(ctx, s.tenant.version)
		Expect(s.upstream.Asked("/dl.k8s.io/")).To(BeNumerically(">", s.tenant.workers), "requests for kubelet, of an administrator and of machines")
	}, SpecTimeout(creation+join))

	It("has led to hosts that kok hosts check shows, and to a support bundle without secrets", func(ctx SpecContext) {
		shown := r.run(ctx, "kok hosts check machine-1 machine-2 machine-3 --namespace team")
		for _, name := range []string{"machine-1", "machine-2", "machine-3"} {
			Expect(shown).To(ContainSubstring(name))
		}
		Expect(strings.Count(shown, "claimed")).To(Equal(s.tenant.workers), shown)
		bundle := filepath.Join(s.folder, "bundle.tar.gz")
		// It ends with 1 where it lacks something, such as the log of a pod that has just gone.
		env.log.Print("%s", r.run(ctx, "kok support-bundle blue --namespace team --output "+bundle+" || [ $? -eq 1 ]"))
		files := filesOf(bundle)
		for _, path := range []string{"status/team/blue.txt", "conditions.txt", "secrets.yaml", "versions.txt"} {
			Expect(files).To(HaveKey(path))
		}
		expectNoSecrets(ctx, files, s.tenant.Namespace)
	}, SpecTimeout(creation))

	It("takes the tenant back by the command that it ends with, and its machines are bare and free again", func(ctx SpecContext) {
		r.follow(ctx, steps.Step{Title: "Delete the tenant", Commands: []string{steps.Delete}})
		free := s.tenant.hosts(ctx)
		Expect(free).To(HaveLen(len(s.machines)))
		for i := range free {
			expectFree(ctx, &free[i])
		}
		for _, machine := range s.machines {
			expectBare(ctx, machine)
			expectState(ctx, machine, s.before[machine.Name])
		}
	}, SpecTimeout(2*creation+join))

	It("is of a release that has the same bytes when it is made again", func(ctx SpecContext) {
		first := released(s.release)
		Expect(first).NotTo(BeEmpty())
		Expect(os.RemoveAll(s.release)).To(Succeed())
		result, err := r.shell.Run(ctx, documented[1].Commands[0])
		Expect(err).NotTo(HaveOccurred())
		Expect(result.Status).To(BeZero(), shell.End(result.Output, lastLines))
		Expect(r.head(ctx)).To(Equal(r.commit), "the commit of the checkout: a release of another one is another one")
		again := released(s.release)
		delete(first, "kok") // Step 2 takes it out of its archive.
		same := maps.Equal(first, again)
		figure("release_reproducible", map[bool]int{true: 1, false: 0}[same], fmt.Sprintf("of %d files", len(first)))
		Expect(again).To(Equal(first), "digests of files in %s", s.release)
	}, SpecTimeout(2*building))
})

// roomForKubelets is the share of the disk that has to be free: kubelet takes no pods with less than 15 % by default, and the release is built
// meanwhile.
const roomForKubelets = 0.18

// expectRoomForKubelets fails where the page's kubelets, whose settings are the defaults, would have no room on the machine's disk.
func expectRoomForKubelets() {
	GinkgoHelper()
	disk := unix.Statfs_t{}
	Expect(unix.Statfs(lab.StateDirectory(), &disk)).To(Succeed())
	Expect(float64(disk.Bavail)/float64(disk.Blocks)).To(BeNumerically(">=", roomForKubelets),
		"the share of the disk of %s that is free: workers would have disk pressure, so make room, such as by go clean -cache", lab.StateDirectory())
}

// lastLines is how much of the output of a command explains its failure.
const lastLines = 40

// reader is who follows the page.
type reader struct {
	site  *site
	shell *shell.Shell
	// ran and failed are how many commands of the page did.
	ran, failed int
	// commit is what the release is made of.
	commit string
}

// start gives the reader a shell in the top folder of the checkout.
func (r *reader) start() {
	GinkgoHelper()
	var err error
	r.shell, err = shell.Start(r.site.desk())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		Expect(r.shell.Close()).To(Succeed())
		figure("install_commands", r.ran, "commands of "+steps.Path)
		figure("install_failed_commands", r.failed, "commands")
	})
}

// head is the commit of the checkout.
func (r *reader) head(ctx context.Context) string {
	GinkgoHelper()
	return r.run(ctx, "git rev-parse HEAD")
}

// run runs a command that is none of the page, and returns what it prints.
func (r *reader) run(ctx context.Context, command string) string {
	GinkgoHelper()
	result, err := r.shell.Run(ctx, command)
	Expect(err).NotTo(HaveOccurred())
	Expect(result.Status).To(BeZero(), result.Output)
	return result.Output
}

// follow runs the commands of a step, and looks for what it says that they print.
func (r *reader) follow(ctx context.Context, step steps.Step) {
	GinkgoHelper()
	var printed strings.Builder
	for _, command := range step.Commands {
		r.ran += steps.Count(command)
		env.log.Print("%s $ %s", step.Title, command)
		began := time.Now()
		result, err := r.shell.Run(ctx, command)
		env.log.Print("%s\n(exit status %d after %.0f s)", result.Output, result.Status, time.Since(began).Seconds())
		if err != nil || result.Status != 0 {
			r.failed++
			Fail(fmt.Sprintf("%s: %s\nexit status %d, %v\n%s", step.Title, command, result.Status, err, shell.End(result.Output, lastLines)))
		}
		printed.WriteString(result.Output)
	}
	for _, text := range step.Worked {
		if !strings.Contains(printed.String(), text) {
			r.failed++
			Fail(fmt.Sprintf("%s: the commands ended well, and did not print %q as the page says:\n%s", step.Title, text, shell.End(printed.String(), lastLines)))
		}
	}
}

// own are the values of step 1 that a reader replaces by those of the site.
func (s *site) own(ctx context.Context) map[string]string {
	GinkgoHelper()
	values := map[string]string{"KOK_IMAGE_REGISTRY": s.registry.address + "/kok", "SSH_KEY": s.key}
	for i, node := range s.nodes[:3] {
		values[fmt.Sprintf("HOST_NODE_%d", i+1)] = node
	}
	for i, machine := range s.machines {
		access, err := env.lab.WorkerAccess(machine.Name)
		Expect(err).NotTo(HaveOccurred())
		// As a person reads it on the machine's console.
		printed, err := machine.Exec(ctx, nil, "ssh-keygen", "-lf", "/etc/ssh/ssh_host_ed25519_key.pub")
		Expect(err).NotTo(HaveOccurred())
		words := strings.Fields(string(printed))
		Expect(len(words)).To(BeNumerically(">", 1), "%s", printed)
		values["SSH_USER"] = access.User
		values[fmt.Sprintf("MACHINE_%d", i+1)], values[fmt.Sprintf("FINGERPRINT_%d", i+1)] = access.Address, words[1]
	}
	return values
}

// released are the SHA-256 of all files of a release, by their paths in it.
func released(folder string) map[string]string {
	GinkgoHelper()
	digests := map[string]string{}
	Expect(filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		name, _ := filepath.Rel(folder, path)
		digests[name] = fmt.Sprintf("%x", sha256.Sum256(content))
		return err
	})).To(Succeed())
	return digests
}

// setHostNodes has these nodes, and no others, carry control planes.
func setHostNodes(ctx context.Context, names ...string) {
	GinkgoHelper()
	nodes := &corev1.NodeList{}
	listAll(ctx, nodes)
	for i := range nodes.Items {
		node := &nodes.Items[i]
		value := "null"
		if slices.Contains(names, node.Name) {
			value = `"true"`
		}
		patch(ctx, node, fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, hostNodeLabel, value))
	}
}
