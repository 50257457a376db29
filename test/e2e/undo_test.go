//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
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

			By("the change is taken back")
			Expect(kok(ctx, "undo", t.Name, "--namespace", t.Namespace, "--to", strconv.FormatInt(good, 10), "--yes")).To(Succeed())
			Eventually(ctx, func(g Gomega) {
				pods, err := t.pods(ctx, names.KubeAPIServer)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(slices.IndexFunc(pods, func(pod corev1.Pod) bool { return hasArgument(&pod, mistake) })).To(Equal(-1), "pods with the argument")
			}).WithTimeout(upgrade).Should(Succeed())
			t.expectComponents(ctx, metav1.ConditionTrue, "")
		})
		t.expectHealthy(ctx)
		t.expectNothingLost(ctx, "undo", journals)
	}, SpecTimeout(4*creation+2*join+2*upgrade))
})

// change is a revision of spec, as kok history tells it.
type change struct {
	Revision    int64
	Changed, By []string
}

// history are the revisions of spec, the newest first.
func (t *tenant) history(ctx context.Context) []change {
	GinkgoHelper()
	output, err := env.output(ctx, "bin/kok", "history", t.Name, "--namespace", t.Namespace, "--output", "json", "--kubeconfig", env.proxy.GetKubeconfigPath())
	Expect(err).NotTo(HaveOccurred())
	var all []change
	Expect(json.Unmarshal(output, &all)).To(Succeed())
	Expect(all).NotTo(BeEmpty())
	return all
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
