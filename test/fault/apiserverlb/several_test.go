//go:build lb

package apiserverlb

import (
	"slices"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/load"
)

// A DaemonSet replaces one API server after the other, each as soon as the one before is ready.
func TestNoRequestFailsWhenAllAPIServersAreRolled(t *testing.T) {
	s := newStage(t)
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
	s.none("roll", true)
}

func TestNoRequestFailsWhenAnAPIServerIsAddedAndAnotherRemoved(t *testing.T) {
	s := newStage(t)
	s.startLoad()
	fourth := s.cluster.Servers[3]
	adding := load.Now()
	s.must(fourth.Start())
	s.wait(fourth.Ready)
	s.running = append(s.running, fourth)
	s.listed()
	s.known()
	before := s.backend(fourth).BytesReceived
	s.more(attempts)
	if after := s.backend(fourth).BytesReceived; after <= before {
		t.Errorf("the fourth API server gets no connections")
	}
	removing := load.Now()
	if ended := s.load.WatchEnds(adding, removing); ended > 0 {
		t.Errorf("%d watches ended with the fourth API server", ended)
	}

	removed := s.running[0]
	s.running = s.running[1:]
	s.load.WriteBy(fourth.Address())
	ended := s.terminate(removed)
	s.must(removed.Vanish())
	s.listed()
	s.known()
	s.back(ended)
	s.more(s.attempts() + attempts)
	s.load.Stop()
	s.noneBetween("add", true, s.began, removing)
	s.noneBetween("remove", true, removing, load.Forever)
}

// What the load balancer kept on disk is old when the worker comes back: of three API servers one is where it was, one
// host refuses connections and one has no power.
func TestAWorkerThatWasDownFindsAPIServersThatMoved(t *testing.T) {
	s := newStage(t)
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
	s.none("move", true)
	printSeconds("lb_move_seconds", started.Until(served))

	// The one that stayed is needed no more.
	s.running[0].Kill()
	s.running = s.running[1:]
	s.listed()
	s.known()
}
