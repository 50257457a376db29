//go:build lb

package apiserverlb

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/apiservers"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/balancers"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/isolation"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/load"
)

const (
	// rate is the number of requests a second on new connections, and also on kept ones.
	rate = 20
	// watches are open all the time.
	watches = 50
	// attempts is how many requests of each kind a test sends at least.
	attempts = 1000
	// stepLimit bounds what is waited for in one step of a test.
	stepLimit = 3 * time.Minute
	// clockFormat is that of the load balancer's log.
	clockFormat = "15:04:05.000000"
	// atFirst is the number of kube-apiservers that a test begins with.
	atFirst = 3
	// most is the number of kube-apiservers that there can be.
	most = 5
)

func TestMain(m *testing.M) {
	os.Exit(isolation.Run(func() int {
		// What clients say of their retries would hide what tests say.
		klog.SetLogger(logr.Discard())
		return m.Run()
	}))
}

// stage is kok-apiserver-lb in front of kube-apiservers.
type stage struct {
	t        *testing.T
	cluster  *apiservers.Cluster
	balancer *balancers.Balancer
	// running are the kube-apiservers that take part.
	running []*apiservers.Server
	load    *load.Load
	began   load.Moment
	// faults are those of which kube-apiservers gave no warning.
	faults []load.Fault
}

// newStage starts three kube-apiservers and the load balancer, which knows them all when it returns.
func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t}
	var err error
	if s.cluster, err = apiservers.Start(t.Context(), required(t, "KUBEBUILDER_ASSETS"), t.TempDir(), most); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.cluster.Close)
	s.running = slices.Clone(s.cluster.Servers[:atFirst])
	for _, server := range s.running {
		s.must(server.Start())
	}
	for _, server := range s.running {
		s.wait(server.Ready)
	}
	s.listed()
	s.balancer, err = balancers.KOK(required(t, "KOK_APISERVER_LB"), &balancers.Config{
		Directory: t.TempDir(), Backends: addresses(s.running), Keys: s.cluster.Keys,
	})
	s.must(err)
	t.Cleanup(func() {
		s.balancer.Close()
		if t.Failed() {
			t.Logf("kok-apiserver-lb wrote:\n%s", s.balancer.Log())
		}
	})
	s.wait(s.balancer.Start)
	s.known()
	return s
}

func required(t *testing.T, variable string) string {
	t.Helper()
	value := os.Getenv(variable)
	if value == "" {
		t.Fatalf("%s is not set: run make test-lb", variable)
	}
	return value
}

func addresses(servers []*apiservers.Server) []string {
	all := make([]string, len(servers))
	for i, server := range servers {
		all[i] = server.Address()
	}
	return all
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// wait waits for one step.
func (s *stage) wait(step func(context.Context) error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), stepLimit)
	defer cancel()
	s.must(step(ctx))
}

// listed waits until the EndpointSlice lists those that run.
func (s *stage) listed() {
	s.t.Helper()
	s.wait(func(ctx context.Context) error { return s.cluster.Listed(ctx, s.running...) })
}

// known waits until the load balancer knows those that run as ready.
func (s *stage) known() {
	s.t.Helper()
	s.wait(func(ctx context.Context) error { return balancers.Knows(ctx, addresses(s.running)...) })
}

// startLoad starts requests and watches.
func (s *stage) startLoad() {
	s.t.Helper()
	writers := map[string]*rest.Config{}
	for _, server := range s.cluster.Servers {
		config, err := s.cluster.Config(server.Address())
		s.must(err)
		writers[server.Address()] = config
	}
	s.wait(func(ctx context.Context) (err error) {
		s.load, err = load.Start(ctx, &load.Options{
			Kept:  func() (*rest.Config, error) { return s.cluster.Config(s.balancer.Address) },
			Fresh: func() (*rest.Config, error) { return s.cluster.FreshConfig(s.balancer.Address) },
			Rate:  rate, Watches: watches, Writers: writers, Writer: s.running[0].Address(),
		})
		return err
	})
	s.t.Cleanup(s.load.Stop)
	s.began = load.Now()
	s.t.Logf("load began at %s", time.Now().Format(clockFormat))
}

// another is a running kube-apiserver other than the given one.
func (s *stage) another(than *apiservers.Server) *apiservers.Server {
	for _, server := range s.running {
		if server != than {
			return server
		}
	}
	return nil
}

// enough reports whether there were as many requests of each kind as a test needs.
func (s *stage) enough() bool { return s.attempts() >= attempts }

func (s *stage) attempts() int { return min(s.load.Fresh.Attempts(), s.load.Persistent.Attempts()) }

// more goes on until there were a number of requests of each kind.
func (s *stage) more(goal int) {
	s.t.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for s.attempts() < goal {
		<-ticker.C
	}
}

// inTurn does something to one running kube-apiserver after the other, to each at least once, until there were enough
// requests. Between two of them all are ready and known for as long as a client waits: a request meets one fault at most.
func (s *stage) inTurn(do func(server *apiservers.Server)) {
	s.t.Helper()
	for i := 0; i < len(s.running) || !s.enough(); i++ {
		server := s.running[i%len(s.running)]
		s.load.WriteBy(s.another(server).Address())
		s.t.Logf("%s: %s fails", time.Now().Format(clockFormat), server.Address())
		do(server)
		s.t.Logf("%s: %s is there again", time.Now().Format(clockFormat), server.Address())
		s.wait(server.Ready)
		s.listed()
		s.known()
		s.more(s.attempts() + int(load.Timeout.Seconds()*rate))
	}
}

// back waits until every watch brings what changed after a moment, and returns how long the longest was away.
func (s *stage) back(since load.Moment) (away time.Duration) {
	s.t.Helper()
	s.wait(func(ctx context.Context) (err error) {
		away, err = s.load.Back(ctx, since)
		return err
	})
	return away
}

// fail has a kube-apiserver fail with no warning, waits until every watch is back, and returns how long the longest was
// away. Only what that kube-apiserver had may end.
func (s *stage) fail(server *apiservers.Server, strike func() error) (away time.Duration) {
	s.t.Helper()
	had := s.backend(server).Connections
	fault := load.Fault{Began: load.Now()}
	s.must(strike())
	fault.Done = load.Now()
	away = s.back(fault.Began)
	fault.Left = fault.Began.Add(away)
	s.faults = append(s.faults, fault)
	if ended := s.load.WatchEnds(fault.Began, fault.Left); ended > had {
		s.t.Errorf("%d watches ended with %s, which had %d connections", ended, server.Address(), had)
	}
	return away
}

// backend is what the load balancer says of a kube-apiserver.
func (s *stage) backend(server *apiservers.Server) status.Backend {
	s.t.Helper()
	report, err := balancers.Report(s.t.Context())
	s.must(err)
	for _, backend := range report.Backends {
		if backend.Address == server.Address() {
			return backend
		}
	}
	return status.Backend{}
}

// none ends the load and expects that no request failed since it began.
func (s *stage) none(what string, persistent bool) {
	s.t.Helper()
	s.load.Stop()
	s.noneBetween(what, persistent, s.began, load.Forever)
}

// noneBetween expects that no request failed that was sent between two moments, and prints figures, whose names end with
// what was done. persistent requests are only told, not counted, when they need not be spared. The load has ended.
func (s *stage) noneBetween(what string, persistent bool, from, to load.Moment) {
	s.t.Helper()
	fresh, freshCut := load.Split(s.load.Fresh.Failures(from, to), s.faults...)
	kept, keptCut := load.Split(s.load.Persistent.Failures(from, to), s.faults...)
	s.t.Logf("fresh: %d requests, %d failed, %d cut, slowest %s; persistent: %d requests, %d failed, %d cut, slowest %s",
		s.load.Fresh.Attempts(), len(fresh), len(freshCut), s.load.Fresh.Slowest(),
		s.load.Persistent.Attempts(), len(kept), len(keptCut), s.load.Persistent.Slowest())
	s.tell("failed", fresh, kept)
	s.tell("cut", freshCut, keptCut)
	failed := len(fresh)
	if persistent {
		failed += len(kept)
	}
	printRequests("lb_failed_"+what, failed)
	if len(s.faults) > 0 {
		printRequests("lb_cut_"+what, len(freshCut)+len(keptCut))
	}
	raw := s.load.Fresh.Raw(from, to).Plus(s.load.Persistent.Raw(from, to))
	printRequests("lb_raw_429_"+what, raw.TooMany)
	printRequests("lb_raw_5xx_"+what, raw.ServerErrors)
	printRequests("lb_raw_broken_"+what, raw.Broken)
	if failed > 0 {
		s.t.Errorf("%s: %d fresh and %d persistent requests failed", what, len(fresh), len(kept))
	}
}

// tell logs requests that were not answered well.
func (s *stage) tell(how string, fresh, kept []load.Failure) {
	s.t.Helper()
	for _, failure := range slices.Concat(fresh, kept) {
		s.t.Logf("%s (write %t, kept connection %t) %s after the start, after %s: %v",
			how, failure.Write, failure.Kept, s.began.Until(failure.Began).Round(time.Millisecond), failure.Took, failure.Err)
	}
}

// within expects a time to be at most ten times its bound, which is that of an idle machine, and prints it as a figure.
func (s *stage) within(figure string, took, bound time.Duration) {
	s.t.Helper()
	printSeconds(figure, took)
	if took > 10*bound {
		s.t.Errorf("%s is %s, want at most ten times %s", figure, took, bound)
	}
}

func printRequests(figure string, count int) { fmt.Printf("figure %s %d requests\n", figure, count) }

func printSeconds(figure string, took time.Duration) {
	fmt.Printf("figure %s %.2f s\n", figure, took.Seconds())
}
