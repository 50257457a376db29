//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/processes"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/running"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/noise"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/reexec"
)

const (
	// noisyWrites a second and noisyWatches are what one tenant is burdened with, quietReads a second what its neighbour is asked.
	noisyWrites, noisyWatches, quietReads = 200, 500, 20
	// noisyObjects are written and watched: ten watches see each write, as of a node, its kubelet and some controllers.
	noisyObjects = 50
	// idleTime and loadedTime are how long reads are measured, rounds how often, one after the other.
	idleTime, loadedTime, rounds = 40 * time.Second, time.Minute, 2
	// calm is what a tenant needs to settle once it is there, or is left alone.
	calm = 15 * time.Second
	// slower is how many times as long the slowest reads but one in a hundred may take, and muchSlower for how much the spec fails. In a lab
	// whose hosts share two cores and a disk the first is missed, as docs/neighbours.md says.
	slower, muchSlower = 3.0, 30.0
)

var _ = Describe("A tenant beside a noisy one on the same host nodes", Ordered, Label(full, neighbours), func() {
	quiet, noisy := newTenant("quiet", "v1.36.3", nil), newTenant("noisy", "v1.36.3", nil)
	removeAfter(quiet, noisy)

	It("is there", func(ctx SpecContext) {
		requireLab()
		together([]*tenant{quiet, noisy}, func(t *tenant) { t.create(ctx) })
		Expect(quiet.apiServerAddresses(ctx)).To(HaveLen(len(env.hostNodes(ctx))))
		nodes := map[*tenant]map[string]bool{}
		for _, t := range []*tenant{quiet, noisy} {
			nodes[t] = map[string]bool{}
			for _, pod := range t.snapshot(ctx) {
				nodes[t][pod.Node] = true
			}
		}
		Expect(nodes[quiet]).To(Equal(nodes[noisy]))
	}, NodeTimeout(3*creation))

	It("has programs that know how much memory they may have, as the noisy one", func(ctx SpecContext) {
		requireLab()
		for _, t := range []*tenant{quiet, noisy} {
			pods, err := t.pods(ctx, "")
			Expect(err).NotTo(HaveOccurred())
			limits := map[string]int64{}
			for _, pod := range pods {
				limits[pod.Name] = pod.Spec.Containers[0].Resources.Limits.Memory().Value()
			}
			for _, process := range processesOf(pods) {
				Expect(limits[process.pod]).NotTo(BeZero(), "pod %s has no limit", process.pod)
				Expect(processes.Variable(process.pid, "GOMEMLIMIT")).To(Equal(strconv.FormatInt(limits[process.pod], 10)), process.pod)
			}
		}
	}, NodeTimeout(creation))

	It("answers nearly as fast as without it, and nothing restarts", func(ctx SpecContext) {
		requireLab()
		n := &neighbourhood{quiet: quiet, noisy: noisy, readers: quiet.readers(ctx)}
		before := map[*tenant]map[string]running.Pod{quiet: quiet.snapshot(ctx), noisy: noisy.snapshot(ctx)}
		for round := range rounds {
			n.measureIdle(ctx, round)
			n.measureLoaded(ctx, round)
		}
		n.tell()
		var stirred []string
		for t, pods := range before {
			stirred = append(stirred, running.Undrained(pods, t.snapshot(ctx), "")...)
		}
		figure("neighbour_restarts", len(stirred), "pods of both that are gone or restarted")
		Expect(stirred).To(BeEmpty())
		quiet.expectHealthy(ctx)
		noisy.expectHealthy(ctx)
		n.expect()
	}, NodeTimeout(rounds*(idleTime+loadedTime+creation)+2*creation))
})

// neighbourhood is what was measured of two tenants.
type neighbourhood struct {
	quiet, noisy *tenant
	// readers are clients of each API server of the quiet tenant.
	readers []kubernetes.Interface

	idle, loaded noise.Reads
	// done is what the noisy tenant was burdened with, and used what its processes took, in that time.
	done noise.Report
	used processes.Usage
	took time.Duration
	// held is the lowest number of watches that were open in the end of a round.
	held int
	// generator is the processor time of the program that made the noise, for starting included, and lived its life.
	generator, lived time.Duration
}

// measureIdle reads from the quiet tenant while nobody else asks anything.
func (n *neighbourhood) measureIdle(ctx context.Context, round int) {
	GinkgoHelper()
	passTime(ctx, calm, func() string { return "settling" })
	reads := n.read(ctx, idleTime)
	env.log.Print("round %d: idle, %s", round+1, say(reads))
	n.idle = n.idle.Plus(reads)
}

// measureLoaded does so while its neighbour is noisy.
func (n *neighbourhood) measureLoaded(ctx context.Context, round int) {
	GinkgoHelper()
	born := time.Now()
	process, err := noise.Start(reexec.Command(ctx, noise.Role), n.noisy.noise(ctx))
	Expect(err).NotTo(HaveOccurred())
	stop := func() { Expect(process.Stop()).To(Succeed()) }
	DeferCleanup(func() { _ = process.Stop() })
	Eventually(ctx, func(g Gomega) {
		report, err := process.Report()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(report.Held).To(Equal(noisyWatches), "%+v", report)
	}).WithTimeout(creation).Should(Succeed(), "all watches are open")

	pids := n.noisy.pids(ctx)
	reportBefore, usedBefore, began := reported(process), usageOf(pids), time.Now()
	reads := n.read(ctx, loadedTime)
	report, used, took := reported(process), usageOf(pids), time.Since(began)
	stop()

	written := report.Written - reportBefore.Written
	env.log.Print("round %d: beside %.0f of %d writes a second and %d of %d watches, %s", round+1,
		float64(written)/took.Seconds(), noisyWrites, report.Held, noisyWatches, say(reads))
	if report.Problem != "" {
		env.log.Print("the last problem of the noise: %s", report.Problem)
	}
	n.loaded = n.loaded.Plus(reads)
	n.done.Written += written
	n.done.Failed += report.Failed - reportBefore.Failed
	n.done.Due += report.Due - reportBefore.Due
	n.done.Events += report.Events - reportBefore.Events
	if round == 0 || report.Held < n.held {
		n.held = report.Held
	}
	n.used.CPU += used.CPU - usedBefore.CPU
	n.used.Written += used.Written - usedBefore.Written
	n.used.Resident, n.used.Sockets = max(n.used.Resident, used.Resident), max(n.used.Sockets, used.Sockets)
	n.took += took
	n.generator, n.lived = n.generator+process.CPU(), n.lived+time.Since(born)
}

// read asks the quiet tenant for so long.
func (n *neighbourhood) read(ctx context.Context, long time.Duration) noise.Reads {
	reading, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	return noise.Read(reading, quietReads, n.readers)
}

// ratio is how many times as long slow reads took beside the noise.
func (n *neighbourhood) ratio() float64 {
	return float64(n.loaded.Quantile(0.99)) / float64(max(n.idle.Quantile(0.99), time.Microsecond))
}

// tell prints the figures. A rate that was not reached is told as it was.
func (n *neighbourhood) tell() {
	GinkgoHelper()
	milliseconds := func(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/float64(time.Millisecond)) }
	perSecond := func(count float64, digits int) string {
		return strconv.FormatFloat(count/n.took.Seconds(), 'f', digits, 64)
	}
	const mebibyte = 1 << 20
	figure("neighbour_p99_ratio", fmt.Sprintf("%.2f", n.ratio()), fmt.Sprintf("times, wanted at most %.0f", slower))
	figure("neighbour_idle_p99_ms", milliseconds(n.idle.Quantile(0.99)), "ms")
	figure("neighbour_loaded_p99_ms", milliseconds(n.loaded.Quantile(0.99)), "ms")
	figure("neighbour_idle_p50_ms", milliseconds(n.idle.Quantile(0.5)), "ms")
	figure("neighbour_loaded_p50_ms", milliseconds(n.loaded.Quantile(0.5)), "ms")
	figure("neighbour_failed_reads", len(n.idle.Failed)+len(n.loaded.Failed), "reads")
	figure("noisy_writes_per_second", perSecond(float64(n.done.Written), 0), fmt.Sprintf("writes/s of %d", noisyWrites))
	figure("noisy_failed_writes", n.done.Failed, "writes")
	figure("noisy_missed_writes", n.done.Due-n.done.Written-n.done.Failed, fmt.Sprintf("writes that were not made, of %d", n.done.Due))
	figure("noisy_watches", n.held, fmt.Sprintf("watches of %d", noisyWatches))
	figure("noisy_events_per_second", perSecond(float64(n.done.Events), 0), "events/s")
	figure("noisy_cpu_cores", perSecond(n.used.CPU.Seconds(), 2), "cores")
	figure("noisy_memory_mib", n.used.Resident/mebibyte, "MiB")
	figure("noisy_disk_mib_per_second", perSecond(float64(n.used.Written)/mebibyte, 1), "MiB/s written")
	figure("noisy_sockets", n.used.Sockets, "sockets")
	figure("noise_generator_cpu_cores", fmt.Sprintf("%.2f", n.generator.Seconds()/n.lived.Seconds()), "cores")
}

func (n *neighbourhood) expect() {
	GinkgoHelper()
	Expect(n.idle.Failed).To(BeEmpty())
	Expect(n.loaded.Failed).To(BeEmpty())
	// Fewer would be no measurement: of the reads, or of the load.
	Expect(len(n.idle.Times)).To(BeNumerically(">", rounds*quietReads*int(idleTime.Seconds())/2), "reads of an idle tenant")
	Expect(len(n.loaded.Times)).To(BeNumerically(">", rounds*quietReads*int(loadedTime.Seconds())/2), "reads beside the noise")
	Expect(float64(n.done.Written)/n.took.Seconds()).To(BeNumerically(">", noisyWrites/4), "writes a second")
	Expect(n.ratio()).To(BeNumerically("<=", muchSlower), "p99 beside the noise, %s, to that without it, %s", n.loaded.Quantile(0.99), n.idle.Quantile(0.99))
}

func say(reads noise.Reads) string {
	return fmt.Sprintf("%d reads were answered, half of them within %s, all but one in a hundred within %s, all within %s; %d failed",
		len(reads.Times), reads.Quantile(0.5), reads.Quantile(0.99), reads.Quantile(1), len(reads.Failed))
}

// apiServerAddresses are the addresses of the tenant's API servers, one on each host node.
func (t *tenant) apiServerAddresses(ctx context.Context) []string {
	GinkgoHelper()
	pods, err := t.pods(ctx, names.KubeAPIServer)
	Expect(err).NotTo(HaveOccurred())
	port := t.ports(ctx).APIServer
	servers := make([]string, len(pods))
	for i := range pods {
		servers[i] = address(pods[i].Status.HostIP, port)
	}
	return servers
}

// readers are clients of each API server with a connection of their own, which is open.
func (t *tenant) readers(ctx context.Context) []kubernetes.Interface {
	GinkgoHelper()
	var readers []kubernetes.Interface
	for _, server := range t.apiServerAddresses(ctx) {
		client, err := kubernetes.NewForConfig(t.keptConfig(server, nil))
		Expect(err).NotTo(HaveOccurred())
		_, err = client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		readers = append(readers, client)
	}
	return readers
}

// noise is what the tenant is burdened with.
func (t *tenant) noise(ctx context.Context) *noise.Settings {
	GinkgoHelper()
	servers := t.apiServerAddresses(ctx)
	return &noise.Settings{
		Servers: servers, TLS: t.keptConfig(servers[0], nil).TLSClientConfig, Namespace: corev1.NamespaceDefault,
		Objects: noisyObjects, Writes: noisyWrites, Watches: noisyWatches,
	}
}

// pids are the processes of the tenant's components.
func (t *tenant) pids(ctx context.Context) []int {
	GinkgoHelper()
	pods, err := t.pods(ctx, "")
	Expect(err).NotTo(HaveOccurred())
	var pids []int
	for _, process := range processesOf(pods) {
		pids = append(pids, process.pid)
	}
	return pids
}

// usageOf is what processes use together.
func usageOf(pids []int) (all processes.Usage) {
	GinkgoHelper()
	for _, pid := range pids {
		one, err := processes.UsageOf(pid)
		Expect(err).NotTo(HaveOccurred())
		all = all.Plus(one)
	}
	return all
}

func reported(process *noise.Process) noise.Report {
	GinkgoHelper()
	report, err := process.Report()
	Expect(err).NotTo(HaveOccurred(), "%+v", report)
	return report
}
