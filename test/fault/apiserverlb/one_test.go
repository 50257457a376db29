//go:build envtest

package apiserverlb

import (
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/apiservers"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/load"
)

const (
	// killBound and stopBound are how long watches may be away after SIGKILL and SIGSTOP.
	killBound = 1200 * time.Millisecond
	stopBound = 1100 * time.Millisecond
)

func TestNoFreshRequestFailsWhenAnAPIServerIsKilled(t *testing.T) {
	s := newStage(t, 3)
	s.startLoad()
	var away time.Duration
	s.inTurn(func(server *apiservers.Server) {
		fault := load.Now()
		server.Kill()
		away = max(away, s.back(fault))
		s.must(server.Start())
	})
	s.none("lb_failed_kill", false)
	s.within("lb_watch_gap_kill_seconds", away, killBound)
}

func TestNoRequestFailsWhenAnAPIServerHangs(t *testing.T) {
	s := newStage(t, 3)
	s.startLoad()
	var away time.Duration
	s.inTurn(func(server *apiservers.Server) {
		fault := load.Now()
		s.must(server.Suspend())
		away = max(away, s.back(fault))
		s.must(server.Resume())
	})
	s.none("lb_failed_stop", true)
	s.within("lb_watch_gap_stop_seconds", away, stopBound)
}

// An API server that ends gracefully keeps its watches until it has ended them itself.
func TestNoRequestFailsAndNoWatchIsCutWhenAnAPIServerIsTerminated(t *testing.T) {
	s := newStage(t, 3)
	s.startLoad()
	var away time.Duration
	s.inTurn(func(server *apiservers.Server) {
		fault := load.Now()
		s.must(server.Terminate())
		s.wait(server.Ended)
		ended := load.Now()
		delayed := fault.Add(apiservers.ShutdownDelay - time.Second/2)
		if cut := s.load.WatchEnds(fault, delayed); cut > 0 {
			t.Errorf("%d watches ended while %s still served", cut, server.Address())
		}
		t.Logf("%s ended after %s, and with it %d watches", server.Address(), fault.Until(ended), s.load.WatchEnds(delayed, load.Forever))
		away = max(away, s.back(ended))
		s.must(server.Start())
	})
	s.none("lb_failed_term", true)
	s.within("lb_watch_gap_term_seconds", away, killBound)
}
