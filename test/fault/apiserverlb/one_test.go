//go:build lb

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
	stopBound = 2300 * time.Millisecond
)

func TestNoFreshRequestFailsWhenAnAPIServerIsKilled(t *testing.T) {
	s := newStage(t)
	s.startLoad()
	var away time.Duration
	s.inTurn(func(server *apiservers.Server) {
		away = max(away, s.fail(server, func() error { server.Kill(); return nil }))
		s.must(server.Start())
	})
	s.none("kill", false)
	s.within("lb_watch_gap_kill_seconds", away, killBound)
}

func TestNoRequestFailsWhenAnAPIServerHangs(t *testing.T) {
	s := newStage(t)
	s.startLoad()
	var away time.Duration
	s.inTurn(func(server *apiservers.Server) {
		away = max(away, s.fail(server, server.Suspend))
		s.must(server.Resume())
	})
	s.none("stop", true)
	s.within("lb_watch_gap_stop_seconds", away, stopBound)
}

// An API server that ends gracefully goes on as before for its shutdown delay, and then keeps its watches as long as a
// request may take.
func TestNoRequestFailsAndNoWatchIsCutWhenAnAPIServerIsTerminated(t *testing.T) {
	s := newStage(t)
	s.startLoad()
	server := s.running[2]
	terminated := load.Now()
	ended := s.terminate(server)
	away := s.back(ended)
	s.must(server.Start())
	s.wait(server.Ready)
	s.listed()
	s.known()
	s.more(attempts)
	t.Logf("%s ended %s after SIGTERM, and with it %d watches", server.Address(), terminated.Until(ended), s.load.WatchEnds(terminated, load.Forever))
	s.none("term", true)
	s.within("lb_watch_gap_term_seconds", away, killBound)
}

// terminate ends an API server gracefully and expects that no watch ends before it ends them. It returns when it was gone.
func (s *stage) terminate(server *apiservers.Server) load.Moment {
	s.t.Helper()
	terminated := load.Now()
	s.must(server.Terminate())
	s.wait(server.Ended)
	ended := load.Now()
	if cut := s.load.WatchEnds(terminated, terminated.Add(apiservers.ShutdownDelay-time.Second/2)); cut > 0 {
		s.t.Errorf("%d watches ended while %s still served", cut, server.Address())
	}
	return ended
}
