//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// execWhileOneIsAway bounds what a shell on a worker waits for when an API server has just lost its power.
const execWhileOneIsAway = 10 * time.Second

// API servers use everything that runs on a worker, and have no route to it. There is one worker: when it goes, nobody
// is left to lead a connection.
var _ = Describe("Konnectivity", Ordered, Label(full, features), func() {
	variables := single()
	variables["KUBE_PROXY_CONNTRACK"] = "None" // the lab's hosts share the machine's kernel
	variables["KONNECTIVITY_MODE"] = "None"    // it is switched on, and off again
	t := newTenant("konnectivity", "v1.36.3", variables)
	t.workers = 1

	BeforeAll(func(ctx SpecContext) {
		requireLab()
		removeWithHosts(t)
		t.createWithWorkers(ctx, 0)
		t.createExtension(ctx, t.hostOf(ctx, t.machines(ctx)[0]))
	}, NodeTimeout(2*creation+join))

	It("is what API servers reach pods by, which they have no route to", func(ctx SpecContext) {
		_, err := askPod(ctx, t.access)
		Expect(err).To(HaveOccurred(), "there is a route to pods: nothing is proved")
		t.setKonnectivity(ctx, controlplanev1.AddonManaged)
		t.expectReachesWorkers(ctx)
	}, SpecTimeout(3*creation))

	It("is there at once where an API server takes the place of one that was deleted", func(ctx SpecContext) {
		pods, err := t.pods(ctx, names.KubeAPIServer)
		Expect(err).NotTo(HaveOccurred())
		Expect(env.client.Delete(ctx, &pods[0])).To(Succeed())
		expectReachesPods(ctx, t.access)
		t.expectHealthy(ctx)
		t.expectReachesWorkers(ctx)
	}, SpecTimeout(3*creation))

	It("leads shells to a worker while an API server is away", func(ctx SpecContext) {
		victim, _ := t.apiServers(ctx)
		lost := victim.Spec.NodeName
		pods, err := t.pods(ctx, names.KubeAPIServer)
		Expect(err).NotTo(HaveOccurred())
		losePower(ctx, lost)
		began := time.Now()
		for _, left := range pods {
			if left.Spec.NodeName == lost {
				continue
			}
			t.expectShell(ctx, t.apiAt(ctx, &left), execWhileOneIsAway-time.Since(began))
		}
		figure("konnectivity_exec_seconds", fmt.Sprintf("%.1f", time.Since(began).Seconds()), "s")
		Expect(env.lab.PowerOn(ctx, lost)).To(Succeed())
		t.expectHealthy(ctx)
		t.expectReachesWorkers(ctx)
	}, SpecTimeout(3*creation))

	It("works again when the last worker has gone and come back", func(ctx SpecContext) {
		t.scale(ctx, 0)
		t.expectWorkers(ctx, 0)
		for _, free := range t.hosts(ctx) {
			loadExtension(ctx, free.Name) // any of them may be the next worker
		}
		t.scale(ctx, 1)
		t.expectWorkers(ctx, 1)
		t.expectReachesWorkers(ctx)
	}, SpecTimeout(3*join))

	It("works on a host node that is added, and restarts no API server", func(ctx SpecContext) {
		before := t.snapshot(ctx)
		node := addHostNode(ctx)
		t.expectHealthy(ctx)
		t.expectServedBy(ctx, env.hostNodes(ctx))
		t.expectReachesWorkers(ctx)
		after := t.snapshot(ctx)
		for pod, was := range before {
			Expect(after).To(HaveKeyWithValue(pod, was))
		}
		leavePool(ctx, node)
		t.expectHealthy(ctx)
		t.expectReachesWorkers(ctx)
		Expect(t.snapshot(ctx)).To(Equal(before))
	}, SpecTimeout(3*creation))

	It("leaves nothing when it is switched off", func(ctx SpecContext) {
		t.deleteExtension(ctx)
		t.setKonnectivity(ctx, controlplanev1.AddonNone)
		_, err := askPod(ctx, t.access)
		Expect(err).To(HaveOccurred())
		Eventually(ctx, func() error {
			_, err := t.api.CoreV1().Namespaces().Get(ctx, "kok-konnectivity", metav1.GetOptions{})
			return err
		}).WithTimeout(creation).Should(MatchError(apierrors.IsNotFound, "IsNotFound"), "the namespace of its leases")
	}, SpecTimeout(3*creation))
})

func (t *tenant) setKonnectivity(ctx context.Context, mode controlplanev1.AddonMode) {
	GinkgoHelper()
	patch(ctx, t.controlPlane(ctx), fmt.Sprintf(`{"spec":{"addons":{"konnectivity":{"mode":%q}}}}`, mode))
	Eventually(ctx, func(g Gomega) {
		controlPlane := t.controlPlane(ctx)
		g.Expect(controlPlane.Status.ObservedGeneration).To(Equal(controlPlane.Generation))
		g.Expect(conditions.IsFalse(controlPlane, conditionsv1.RollingOutCondition)).To(BeTrue())
		g.Expect(conditions.IsTrue(controlPlane, conditionsv1.AddonsInstalledCondition)).To(BeTrue())
		g.Expect(conditions.IsTrue(controlPlane, conditionsv1.EgressConfinedCondition)).To(Equal(mode == controlplanev1.AddonManaged))
	}).WithTimeout(creation).Should(Succeed())
	t.expectHealthy(ctx)
}

// expectReachesWorkers waits until every API server reaches nodes, pods, webhooks and aggregated APIs.
func (t *tenant) expectReachesWorkers(ctx context.Context) {
	GinkgoHelper()
	pods, err := t.pods(ctx, names.KubeAPIServer)
	Expect(err).NotTo(HaveOccurred())
	for i := range pods {
		access := t.apiAt(ctx, &pods[i])
		expectReachesPods(ctx, access)
		expectExtended(ctx, access)
		t.expectShell(ctx, access, creation)
		t.expectOutput(ctx, access, creation, HavePrefix("listens at"), "logs", "--namespace=default", "deployment/"+extensionName)
	}
}

// apiAt is the way to one API server, and to no other.
func (t *tenant) apiAt(ctx context.Context, pod *corev1.Pod) *rest.Config {
	GinkgoHelper()
	access := t.keptConfig(address(pod.Status.HostIP, t.ports(ctx).APIServer), nil)
	access.Timeout = t.access.Timeout
	return access
}

// askPod asks the web server of Hello by kube-apiserver's proxy, which connects to its pod.
func askPod(ctx context.Context, access *rest.Config) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	api, err := kubernetes.NewForConfig(access)
	if err != nil {
		return "", err
	}
	answer, err := api.CoreV1().Services("hello").ProxyGet("http", "hello", "80", "/", nil).DoRaw(ctx)
	return string(answer), err
}

func expectReachesPods(ctx context.Context, access *rest.Config) {
	GinkgoHelper()
	Eventually(ctx, func() (string, error) { return askPod(ctx, access) }).WithTimeout(creation).Should(HavePrefix("hello from"), access.Host)
}

// expectShell waits until the client of Hello runs in the web server's own pod.
func (t *tenant) expectShell(ctx context.Context, access *rest.Config, timeout time.Duration) {
	GinkgoHelper()
	t.expectOutput(ctx, access, timeout, HavePrefix("hello from"), "exec", "--namespace=hello", "deployment/hello", "--", "hello", "ask", "http://127.0.0.1:8080")
}

// expectOutput waits until kubectl succeeds at an API server, with an output as it should be.
func (t *tenant) expectOutput(ctx context.Context, access *rest.Config, timeout time.Duration, matcher types.GomegaMatcher, args ...string) {
	GinkgoHelper()
	args = append([]string{"--kubeconfig=" + t.kubeconfigFor(access)}, args...)
	Eventually(ctx, func() (string, error) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		output, err := exec.CommandContext(ctx, env.kubectl, args...).CombinedOutput()
		return string(output), err
	}).WithTimeout(timeout).Should(matcher, "kubectl %v at %s", args[1:], access.Host)
}
