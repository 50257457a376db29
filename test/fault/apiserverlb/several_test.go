//go:build envtest

package apiserverlb

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/apiservers"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/balancers"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/load"
)

// A DaemonSet replaces one API server after the other, each as soon as the one before is ready.
func TestNoRequestFailsWhenAllAPIServersAreRolled(t *testing.T) {
	s := newStage(t, 3)
	s.startLoad()
	for round := 0; round == 0 || !s.enough(); round++ {
		for _, server := range s.running {
			s.load.WriteBy(s.another(server).Address())
			s.terminate(server)
			s.must(server.Start())
			s.wait(server.Ready)
		}
	}
	s.listed()
	s.known()
	s.back(load.Now())
	s.none("lb_failed_roll", true)
}

func TestNoRequestFailsWhenAnAPIServerIsAddedAndAnotherRemoved(t *testing.T) {
	s := newStage(t, 3)
	s.startLoad()
	fourth := s.cluster.Servers[3]
	s.must(fourth.Start())
	s.wait(fourth.Ready)
	s.running = append(s.running, fourth)
	s.listed()
	s.known()
	before := carried(s, fourth)
	s.more(attempts)
	if after := carried(s, fourth); after <= before {
		t.Errorf("the fourth API server gets no connections")
	}
	added := len(s.load.Fresh.Failures(s.began, load.Forever)) + len(s.load.Persistent.Failures(s.began, load.Forever))
	printRequests("lb_failed_add", added)

	removed := s.running[0]
	s.running = s.running[1:]
	s.load.WriteBy(fourth.Address())
	ended := s.terminate(removed)
	s.must(removed.Vanish())
	s.listed()
	s.known()
	s.back(ended)
	s.more(s.attempts() + attempts)
	s.none("lb_failed_remove", true)
}

// carried is how many bytes the load balancer has had from a kube-apiserver.
func carried(s *stage, server *apiservers.Server) uint64 {
	s.t.Helper()
	report, err := balancers.Report(s.t.Context())
	s.must(err)
	for _, backend := range report.Backends {
		if backend.Address == server.Address() {
			return backend.BytesReceived
		}
	}
	return 0
}

// What the load balancer kept on disk is old when the worker comes back: of three API servers one is where it was, one
// host refuses connections and one has no power.
func TestAWorkerThatWasDownFindsAPIServersThatMoved(t *testing.T) {
	s := newStage(t, 3)
	s.wait(s.balancer.Stop)
	for _, server := range s.running[:2] {
		s.must(server.Terminate())
	}
	for _, server := range s.running[:2] {
		s.wait(server.Ended)
	}
	s.must(s.running[0].Vanish())
	s.running = slices.Clone(s.cluster.Servers[2:5])
	for _, server := range s.running[1:] {
		s.must(server.Start())
	}
	for _, server := range s.running {
		s.wait(server.Ready)
	}
	s.listed()

	started := load.Now()
	s.wait(s.balancer.Start)
	s.startLoad()
	served := load.Now()
	s.known()
	s.more(attempts)
	s.none("lb_failed_move", true)
	printSeconds("lb_move_seconds", started.Until(served))

	// The one that stayed is needed no more.
	s.running[0].Kill()
	s.running = s.running[1:]
	s.listed()
	s.known()
}

// Connections fail while nobody serves them, at once and not after a time-out; afterwards none does.
func TestEverythingWorksAtOnceAfterAllAPIServersWereAway(t *testing.T) {
	s := newStage(t, 3)
	s.startLoad()
	away := load.Now()
	for _, server := range s.running {
		server.Kill()
	}
	// Requests that were under way at the kill are not of those that find nobody.
	gone := load.Now()
	<-time.After(time.Minute)
	starting := load.Now()
	failures := s.load.Fresh.Failures(gone, starting)
	if len(failures) < rate*30 {
		t.Errorf("only %d fresh requests failed in a minute without an API server", len(failures))
	}
	slowest := time.Duration(0)
	for _, failure := range failures {
		slowest = max(slowest, failure.Took)
	}
	for _, server := range s.running {
		s.must(server.Start())
	}
	s.wait(s.running[0].Ready)
	ready := load.Now()
	recovered := s.recovered(ready)
	s.t.Logf("away for %s, %d fresh requests failed", away.Until(starting), len(failures))
	s.within("lb_refuse_seconds", slowest, time.Second)
	s.within("lb_recovery_seconds", recovered, time.Second)
	for _, server := range s.running {
		s.wait(server.Ready)
	}
	s.listed()
	s.known()
	s.began = load.Now()
	s.back(s.began)
	s.more(s.attempts() + attempts)
	s.none("lb_failed_after_all_away", true)
}

// recovered is how long after the first API server was ready the last request was sent that failed.
func (s *stage) recovered(ready load.Moment) time.Duration {
	s.t.Helper()
	s.wait(func(ctx context.Context) error {
		_, err := s.load.Back(ctx, ready)
		return err
	})
	last := ready
	for _, failure := range s.load.Fresh.Failures(ready, load.Forever) {
		last = failure.Began
	}
	return ready.Until(last)
}
