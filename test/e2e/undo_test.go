//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/shell"
)

var _ = Describe("A change of spec that was a mistake", Label(full, ofKeys, "undo"), func() {
	It("is told with who made it, and taken back while the tenant is used", func(ctx SpecContext) {
		const mistake, who = "no-such-argument", "e2e-mistake"
		t := newTenant("undo", "v1.36.3", map[string]string{"KUBE_PROXY_CONNTRACK": "None"}) // the lab's hosts share the machine's kernel
		t.workers = 1
		removeWithHosts(t)
		t.createWithWorkers(ctx, 0)
		good := t.history(ctx)[0].Revision
		journals := t.startJournals(ctx, "undo", t.worker(ctx))

		t.steadily(ctx, func() {
			By("an API server does not start with an argument")
			wrong := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"kubeAPIServer":{"extraArgs":[{"name":"`+mistake+`","value":"true"}]}}}`))
			Expect(env.client.Patch(ctx, t.controlPlane(ctx), wrong, client.FieldOwner(who))).To(Succeed())
			t.expectComponents(ctx, metav1.ConditionFalse, names.KubeAPIServer)
			newest := t.history(ctx)[0]
			Expect(newest.Changed).To(ConsistOf(HavePrefix("spec.kubeAPIServer")))
			Expect(newest.By).To(ConsistOf(who))
			Expect(t.kokHistory(ctx, "--diff", strconv.FormatInt(newest.Revision, 10))).To(And(
				ContainSubstring("changed by "+who+":"), MatchRegexp(`(?m)^\+ +"name": "%s"`, mistake)))

			By("the change is taken back")
			Expect(kok(ctx, "undo", t.Name, "--namespace", t.Namespace, "--to", strconv.FormatInt(good, 10), "--yes")).To(Succeed())
			Eventually(ctx, func(g Gomega) {
				pods, err := t.pods(ctx, names.KubeAPIServer)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(slices.IndexFunc(pods, func(pod corev1.Pod) bool { return hasArgument(&pod, mistake) })).To(Equal(-1), "pods with the argument")
			}).WithTimeout(upgrade).Should(Succeed())
			t.expectComponents(ctx, metav1.ConditionTrue, "")

			By("another change is taken back by the command of docs/day-two.md")
			patch(ctx, t.controlPlane(ctx), `{"spec":{"kubeScheduler":{"extraArgs":[{"name":"v","value":"3"}]}}}`)
			Eventually(ctx, func() []string { return t.history(ctx)[0].Changed }).WithTimeout(creation).Should(ConsistOf(HavePrefix("spec.kubeScheduler")))
			t.takeBackByHand(ctx, t.history(ctx)[0].Revision)
			Expect(t.controlPlane(ctx).Spec.KubeScheduler.ExtraArgs).To(BeEmpty())
			Eventually(ctx, func(g Gomega) {
				pods, err := t.pods(ctx, names.KubeScheduler)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(slices.IndexFunc(pods, func(pod corev1.Pod) bool { return hasArgument(&pod, "v=3") })).To(Equal(-1), "pods with the argument")
			}).WithTimeout(upgrade).Should(Succeed())
			t.expectComponents(ctx, metav1.ConditionTrue, "")
		})
		t.expectHealthy(ctx)
		t.expectNothingLost(ctx, "undo", journals)
	}, SpecTimeout(5*creation+2*join+3*upgrade))
})

// change is a revision of spec, as kok history tells it.
type change struct {
	Revision    int64
	Changed, By []string
}

// history are the revisions of spec, the newest first.
func (t *tenant) history(ctx context.Context) []change {
	GinkgoHelper()
	var all []change
	Expect(json.Unmarshal([]byte(t.kokHistory(ctx, "--output", "json")), &all)).To(Succeed())
	Expect(all).NotTo(BeEmpty())
	return all
}

// kokHistory is what kok history prints.
func (t *tenant) kokHistory(ctx context.Context, flags ...string) string {
	GinkgoHelper()
	output, err := env.output(ctx, "bin/kok", append([]string{"history", t.Name, "--namespace", t.Namespace, "--kubeconfig", env.proxy.GetKubeconfigPath()}, flags...)...)
	Expect(err).NotTo(HaveOccurred())
	return string(output)
}

// takeBackByHand runs the command of docs/day-two.md that takes back what a revision changed, as it is written there.
func (t *tenant) takeBackByHand(ctx context.Context, revision int64) {
	GinkgoHelper()
	page, err := os.ReadFile(filepath.Join("docs", "day-two.md"))
	Expect(err).NotTo(HaveOccurred())
	commands := regexp.MustCompile(`(?m)^kubectl .*\bwayBack\b.*$`).FindAllString(string(page), -1)
	Expect(commands).To(HaveLen(1), "commands with wayBack in docs/day-two.md")
	command := strings.NewReplacer(
		"<cluster>-spec-4", fmt.Sprintf("%s-spec-%d", t.Name, revision), "<namespace>", t.Namespace, "<name>", t.Name,
	).Replace(commands[0])
	Expect(command).NotTo(ContainSubstring("<"), "what a reader has to replace")

	top, err := filepath.Abs(".")
	Expect(err).NotTo(HaveOccurred())
	kubectl, err := filepath.Abs(env.kubectl)
	Expect(err).NotTo(HaveOccurred())
	programs := GinkgoT().TempDir()
	Expect(os.Symlink(kubectl, filepath.Join(programs, "kubectl"))).To(Succeed())
	reader, err := shell.Start(shell.Options{Folder: top, Env: append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "KUBECONFIG="+env.proxy.GetKubeconfigPath())})
	Expect(err).NotTo(HaveOccurred())
	defer reader.Close() //nolint:errcheck // It has run its only command.
	env.log.Print("$ %s", command)
	result, err := reader.Run(ctx, command)
	Expect(err).NotTo(HaveOccurred())
	Expect(result.Status).To(BeZero(), result.Output)
}

// expectComponents waits until the condition of components has a status, and names a component.
func (t *tenant) expectComponents(ctx context.Context, status metav1.ConditionStatus, component string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		condition := conditions.Get(t.controlPlane(ctx), conditionsv1.ControlPlaneComponentsHealthyCondition)
		g.Expect(condition).NotTo(BeNil())
		g.Expect(condition.Status).To(Equal(status), condition.Message)
		g.Expect(condition.Message).To(ContainSubstring(component))
	}).WithTimeout(upgrade).Should(Succeed())
}

// hasArgument reports whether a container of a pod is started with an argument.
func hasArgument(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(slices.Concat(c.Command, c.Args), func(argument string) bool { return strings.HasPrefix(argument, "--"+name) })
	})
}
