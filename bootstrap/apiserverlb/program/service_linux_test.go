//go:build root

package program

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/serviceaddress"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/isolation"
)

// inOwnNetwork runs a test on a thread with a network of its own, which needs root.
func inOwnNetwork(t *testing.T, test func() error) {
	t.Helper()
	err := isolation.OnThread(func() error {
		if _, err := netns.New(); err != nil {
			return fmt.Errorf("make a network namespace, which needs root: %w", err)
		}
		loopback, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(loopback); err != nil {
			return err
		}
		return test()
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAnAddressThatIsInUseIsTakenOnceItIsFree(t *testing.T) {
	inOwnNetwork(t, func() error {
		var serving sync.WaitGroup
		defer serving.Wait()
		s := &service{
			address: netip.MustParseAddrPort("10.96.0.1:443"), local: netip.MustParseAddrPort("10.96.0.1:6443"), log: logr.Discard(),
			serve: func(listener *net.TCPListener) {
				for {
					accepted, err := listener.Accept()
					if err != nil {
						return
					}
					_ = accepted.Close()
				}
			},
		}
		defer s.close()
		other, err := serviceaddress.Listen(t.Context(), s.local)
		if err != nil {
			return err
		}
		s.take(t.Context(), &serving)
		if taken, problem := s.state(); taken || !strings.Contains(problem, "in use") {
			t.Errorf("taken: %t, problem: %q", taken, problem)
		}
		if err := other.Close(); err != nil {
			return err
		}
		s.take(t.Context(), &serving)
		if taken, problem := s.state(); !taken || problem != "" {
			t.Errorf("taken: %t, problem: %q", taken, problem)
		}
		client, err := net.DialTimeout("tcp", s.address.String(), 10*time.Second)
		if err != nil {
			return err
		}
		_ = client.Close()
		s.close()
		s.giveBack()
		s.take(t.Context(), &serving)
		if taken, _ := s.state(); taken {
			t.Error("it is taken after the end")
		}
		return nil
	})
}
