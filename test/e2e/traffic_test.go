//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/configuration"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/certificates"
	requests "github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/client"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/isolation"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/load"
)

const (
	// trafficRate is the number of requests a second of each kind, trafficWatches that of watches, and
	// trafficAttempts how many requests of each kind a spec sends at least.
	trafficRate     = 20
	trafficWatches  = 50
	trafficAttempts = 1000
)

// traffic is what clients ask of a tenant's API while an API server fails.
type traffic struct {
	*load.Load
	name  string
	began load.Moment
	// fault is the one that an API server has; what it had then is nobody's to mend.
	fault load.Fault
}

// startTraffic starts clients that connect to an address with dial. The API server of spared, a pod, has the
// watched object changed.
func (t *tenant) startTraffic(ctx context.Context, name, server string, dial requests.Dial, spared *corev1.Pod) *traffic {
	GinkgoHelper()
	port := t.ports(ctx).APIServer
	writers := map[string]*rest.Config{}
	for _, node := range env.hostNodes(ctx) {
		direct := address(internalIP(&node), port)
		writers[direct] = t.keptConfig(direct, nil)
	}
	node := env.hostNodes(ctx)[spared.Spec.NodeName]
	starting, cancel := context.WithTimeout(ctx, creation)
	defer cancel()
	started, err := load.Start(starting, &load.Options{
		Kept:  func() (*rest.Config, error) { return t.keptConfig(server, dial), nil },
		Fresh: func() (*rest.Config, error) { return t.freshConfig(server, dial) },
		Rate:  trafficRate, Watches: trafficWatches, Writers: writers, Writer: address(internalIP(&node), port),
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(started.Stop)
	return &traffic{Load: started, name: name, began: load.Now()}
}

// keptConfig is the access of t to a server, with a connection of its own that is kept.
func (t *tenant) keptConfig(server string, dial requests.Dial) *rest.Config {
	config := rest.CopyConfig(t.access)
	config.Host, config.ServerName, config.Dial = "https://"+server, certificates.TenantServerName, dial
	config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	// A watch has no limit; requests have that of the load.
	config.QPS, config.Timeout = -1, 0
	return config
}

// freshConfig is keptConfig with a new connection for every request.
func (t *tenant) freshConfig(server string, dial requests.Dial) (*rest.Config, error) {
	return load.Fresh(t.keptConfig(server, dial))
}

// dialFromProcess opens connections in the network of a container's process.
func dialFromProcess(pid int) requests.Dial {
	return func(ctx context.Context, network, address string) (connection net.Conn, err error) {
		err = isolation.InNetworkOf(pid, func() error {
			connection, err = (&net.Dialer{}).DialContext(ctx, network, address)
			return err
		})
		return connection, err
	}
}

// strike has an API server fail.
func (c *traffic) strike(how func() error) {
	GinkgoHelper()
	c.fault.Began = load.Now()
	Expect(how()).To(Succeed())
	c.fault.Done = load.Now()
}

// back waits until all watches bring what changed after the fault, and returns how long the last was away.
func (c *traffic) back(ctx context.Context) time.Duration {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, creation)
	defer cancel()
	away, err := c.Back(ctx, c.fault.Began)
	Expect(err).NotTo(HaveOccurred())
	c.fault.Left = c.fault.Began.Add(away)
	return away
}

// more goes on until there were as many requests of each kind as a spec needs.
func (c *traffic) more(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, c.attempts).WithTimeout(creation).Should(BeNumerically(">=", trafficAttempts), "requests of each kind")
}

func (c *traffic) attempts() int { return min(c.Fresh.Attempts(), c.Persistent.Attempts()) }

// said is what is printed of requests.
func (c *traffic) said(how string, failures []load.Failure) []string {
	words := make([]string, len(failures))
	for i, f := range failures {
		words[i] = fmt.Sprintf("%s (write %t, kept connection %t): sent %s after the start, after %s: %v",
			how, f.Write, f.Kept, c.began.Until(f.Began).Round(time.Millisecond), f.Took.Round(time.Millisecond), f.Err)
	}
	return words
}

// end stops the traffic and tells what became of it. It returns the failed requests of each kind.
func (c *traffic) end() (fresh, persistent []string) {
	c.Stop()
	freshFailed, freshCut := load.Split(c.Fresh.Failures(c.began, load.Forever), c.fault)
	keptFailed, keptCut := load.Split(c.Persistent.Failures(c.began, load.Forever), c.fault)
	env.log.Print("%s: %d requests on new connections, %d failed, %d cut, slowest %s; %d on kept ones, %d failed, %d cut, slowest %s",
		c.name, c.Fresh.Attempts(), len(freshFailed), len(freshCut), c.Fresh.Slowest(), c.Persistent.Attempts(), len(keptFailed), len(keptCut), c.Persistent.Slowest())
	fresh, persistent = c.said("failed", freshFailed), c.said("failed", keptFailed)
	for _, line := range slices.Concat(fresh, persistent, c.said("cut", freshCut), c.said("cut", keptCut)) {
		env.log.Print("%s", line)
	}
	raw := c.Fresh.Raw(c.began, load.Forever).Plus(c.Persistent.Raw(c.began, load.Forever))
	figure(c.name+"_failed_fresh", len(fresh), "requests")
	figure(c.name+"_failed_persistent", len(persistent), "requests")
	figure(c.name+"_cut", len(freshCut)+len(keptCut), "requests")
	figure(c.name+"_raw_429", raw.TooMany, "requests")
	figure(c.name+"_raw_5xx", raw.ServerErrors, "requests")
	figure(c.name+"_raw_broken", raw.Broken, "requests")
	return fresh, persistent
}

// away prints how long watches were away, and expects at most ten times the bound, which is that of an idle machine.
func (c *traffic) away(took, bound time.Duration) {
	GinkgoHelper()
	figure(c.name+"_watch_gap_seconds", fmt.Sprintf("%.2f", took.Seconds()), "s")
	Expect(took).To(BeNumerically("<=", 10*bound), "how long watches were away, usual are %s", bound)
}

// balancerOf is what the load balancer of a worker says of itself.
func balancerOf(ctx context.Context, worker *host.Host) (*status.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+configuration.DefaultStatusAddress+"/status", http.NoBody)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{DialContext: worker.Dial, DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	report := &status.Report{}
	return report, json.NewDecoder(response.Body).Decode(report)
}

// expectBalances waits until the load balancer of a worker knows every API server as ready.
func (t *tenant) expectBalances(ctx context.Context, worker *host.Host) *status.Report {
	GinkgoHelper()
	return expectBackends(ctx, worker, t.advertised(ctx)...)
}

// expectBackends waits until the load balancer of a worker knows these addresses, and no others, as ready.
func expectBackends(ctx context.Context, worker *host.Host, want ...string) *status.Report {
	GinkgoHelper()
	var report *status.Report
	Eventually(ctx, func(g Gomega) {
		var err error
		report, err = balancerOf(ctx, worker)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(report.Discovery.Confirmed).To(BeTrue(), report.Discovery.Problem)
		var ready []string
		for _, backend := range report.Backends {
			if backend.Listed && backend.State == "ready" && !backend.Suspect {
				ready = append(ready, backend.Address)
			}
		}
		g.Expect(ready).To(ConsistOf(want))
	}).WithTimeout(creation).Should(Succeed(), "the load balancer of %s", worker.Name)
	return report
}
