//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/configuration"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	requests "github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/client"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

const (
	// How long watches may be away on an idle machine after an API server was killed, and after one went silent.
	killGap    = 1200 * time.Millisecond
	silenceGap = 2300 * time.Millisecond
)

// What only a real worker shows of its load balancer; docs/load-balancer-tests.md has the faults that processes show.
var _ = Describe("A worker whose API servers fail", Ordered, Label(full, onWorkers), func() {
	variables := single()
	variables["KUBE_PROXY_CONNTRACK"] = "None" // the lab's hosts share the machine's kernel
	t := newTenant("load-balancer", "v1.36.3", variables)
	t.workers = 2

	var (
		worker *host.Host
		// pod runs on the worker, in the pod network.
		pod corev1.Pod
	)

	BeforeAll(func(ctx SpecContext) {
		requireLab()
		removeWithHosts(t)
		t.createWithWorkers(ctx, 0)
		pod = t.helloPod(ctx)
		worker = t.workerOf(ctx, pod.Spec.NodeName)
	}, NodeTimeout(2*creation+join))

	BeforeEach(func(ctx SpecContext) {
		t.expectHealthy(ctx)
		t.expectBalances(ctx, worker)
	}, NodeTimeout(2*creation))

	toListener := func(context.Context) (server string, dial requests.Dial) {
		return configuration.DefaultListenAddress, worker.Dial
	}
	// Pods come by the Service kubernetes, of which the load balancer has the address: kube-proxy would take them to an API
	// server that is gone for as long as the EndpointSlice lists it.
	toService := func(ctx context.Context) (server string, dial requests.Dial) {
		GinkgoHelper()
		t.expectTaken(ctx, worker)
		service, err := t.api.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		inPod := processesOf([]corev1.Pod{pod})[0].pid
		return address(service.Spec.ClusterIP, service.Spec.Ports[0].Port), dialFromProcess(inPod)
	}

	for _, from := range []struct {
		whom, figure string
		way          func(context.Context) (server string, dial requests.Dial)
	}{
		{"of a worker", "lb", toListener},
		{"of a pod", "pod", toService},
	} {
		It("fails no request "+from.whom+" when the host of one loses its power", func(ctx SpecContext) {
			lost, spared := t.apiServers(ctx)
			server, dial := from.way(ctx)
			c := t.startTraffic(ctx, from.figure+"_poweroff", server, dial, spared)
			DeferCleanup(func(ctx SpecContext) {
				Expect(env.lab.PowerOn(ctx, lost.Spec.NodeName)).To(Succeed())
				t.expectHealthy(ctx)
			}, NodeTimeout(2*creation))
			c.strike(func() error { return env.lab.PowerOff(ctx, lost.Spec.NodeName) })
			away := c.back(ctx)
			c.more(ctx)
			// It comes back under load as well.
			Expect(env.lab.PowerOn(ctx, lost.Spec.NodeName)).To(Succeed())
			t.expectHealthy(ctx)
			t.expectTaken(ctx, worker)
			c.spared(away)
		}, SpecTimeout(6*creation))

		It("fails no request "+from.whom+" when one hangs", func(ctx SpecContext) {
			victim, spared := t.apiServers(ctx)
			server, dial := from.way(ctx)
			c := t.startTraffic(ctx, from.figure+"_stop", server, dial, spared)
			pid := processesOf([]corev1.Pod{*victim})[0].pid
			resume := func() error { return syscall.Kill(pid, syscall.SIGCONT) }
			DeferCleanup(func() { _ = resume() }) // A spec that fails leaves none that hangs.
			c.strike(func() error { return syscall.Kill(pid, syscall.SIGSTOP) })
			away := c.back(ctx)
			Expect(resume()).To(Succeed())
			t.expectHealthy(ctx)
			t.expectTaken(ctx, worker)
			c.more(ctx)
			c.spared(away)
		}, SpecTimeout(6*creation))
	}

	It("fails no request on a new connection when one is killed while all of its own processors are busy", func(ctx SpecContext) {
		victim, spared := t.apiServers(ctx)
		keepBusy(ctx, worker)
		c := t.startTraffic(ctx, "lb_loaded", configuration.DefaultListenAddress, worker.Dial, spared)
		before, began := usage(worker), time.Now()
		c.kill(victim)
		away := c.back(ctx)
		c.more(ctx)
		busy := (usage(worker) - before).Seconds() / time.Since(began).Seconds()
		fresh, _ := c.end()
		figure("lb_loaded_busy_processors", fmt.Sprintf("%.2f", busy), "processors")
		c.away(away, killGap)
		Expect(fresh).To(BeEmpty(), "on new connections")
		// What the others leave, and that is no idle worker.
		Expect(busy).To(BeNumerically(">", float64(runtime.NumCPU())/10), "processors that %s used", worker.Name)
	}, SpecTimeout(6*creation))

	It("fails no request of a pod on a new connection when one is killed", func(ctx SpecContext) {
		victim, spared := t.apiServers(ctx)
		server, dial := toService(ctx)
		c := t.startTraffic(ctx, "pod_kill", server, dial, spared)
		c.kill(victim)
		away := c.back(ctx)
		t.expectHealthy(ctx)
		t.expectTaken(ctx, worker)
		c.more(ctx)
		fresh, _ := c.end()
		c.away(away, killGap)
		Expect(fresh).To(BeEmpty(), "on new connections")
	}, SpecTimeout(6*creation))
})

// apiServers are the pods of two API servers: one on a host that has no member of etcd, so that nothing but an API
// server fails with it, and another.
func (t *tenant) apiServers(ctx context.Context) (victim, spared *corev1.Pod) {
	GinkgoHelper()
	stores := map[string]bool{}
	for _, component := range []string{names.EtcdData, names.EtcdEvents} {
		pods, err := t.pods(ctx, component)
		Expect(err).NotTo(HaveOccurred())
		for _, pod := range pods {
			stores[pod.Spec.NodeName] = true
		}
	}
	pods, err := t.pods(ctx, names.KubeAPIServer)
	Expect(err).NotTo(HaveOccurred())
	for i := range pods {
		if victim == nil && !stores[pods[i].Spec.NodeName] {
			victim = &pods[i]
		} else {
			spared = &pods[i]
		}
	}
	Expect(victim).NotTo(BeNil(), "every host of an API server has a member of etcd")
	Expect(spared).NotTo(BeNil(), "there is one API server only")
	return victim, spared
}

// kill ends an API server as kill -9 does.
func (c *traffic) kill(victim *corev1.Pod) {
	GinkgoHelper()
	pid := processesOf([]corev1.Pod{*victim})[0].pid
	c.strike(func() error { return syscall.Kill(pid, syscall.SIGKILL) })
}

// spared ends the traffic and expects that no request failed and that watches were away as when an API server goes silent.
func (c *traffic) spared(away time.Duration) {
	GinkgoHelper()
	fresh, persistent := c.end()
	c.away(away, silenceGap)
	Expect(fresh).To(BeEmpty(), "on new connections")
	Expect(persistent).To(BeEmpty(), "on kept connections")
}

// expectTaken waits until the load balancer of a worker knows every API server as ready, and expects that it has the
// address of the Service kubernetes.
func (t *tenant) expectTaken(ctx context.Context, worker *host.Host) {
	GinkgoHelper()
	report := t.expectBalances(ctx, worker)
	Expect(report.Service).NotTo(BeNil())
	Expect(report.Service.Taken).To(BeTrue(), report.Service.Problem)
}

// helloPod is a pod of the web server of Hello that runs.
func (t *tenant) helloPod(ctx context.Context) corev1.Pod {
	GinkgoHelper()
	pods, err := t.api.CoreV1().Pods("hello").List(ctx, metav1.ListOptions{LabelSelector: "app=hello", FieldSelector: "status.phase=Running"})
	Expect(err).NotTo(HaveOccurred())
	Expect(pods.Items).NotTo(BeEmpty())
	return pods.Items[0]
}

// workerOf is the host of a Node.
func (t *tenant) workerOf(ctx context.Context, node string) *host.Host {
	GinkgoHelper()
	for _, machine := range t.machines(ctx) {
		if machine.Status.NodeRef.Name == node {
			return labHost(t.hostOf(ctx, machine))
		}
	}
	Fail("no Machine has Node " + node)
	return nil
}

// keepBusy has a host compute on all processors, several times over, until the spec ends.
func keepBusy(ctx context.Context, h *host.Host) {
	working, stop := context.WithCancel(ctx)
	var computing sync.WaitGroup
	for range 4 * runtime.NumCPU() {
		computing.Go(func() {
			defer GinkgoRecover()
			err := h.Run(working, nil, io.Discard, io.Discard, "sha256sum", "/dev/zero")
			Expect(working.Err()).To(HaveOccurred(), "%s stopped computing: %v", h.Name, err)
		})
	}
	DeferCleanup(func() {
		stop()
		computing.Wait()
	})
}

// usage is the processor time that a host has used.
func usage(h *host.Host) time.Duration {
	GinkgoHelper()
	used, err := h.Usage()
	Expect(err).NotTo(HaveOccurred())
	return used.CPU
}
