//go:build root

package program

import (
	"crypto/tls"
	"net"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/internal/apiservertest"
)

// fewDescriptors are so few that a test can use them up.
const fewDescriptors = 256

// ownNetwork gives the rest of a test a network of its own. Its thread ends with it.
func ownNetwork(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	if _, err := netns.New(); err != nil {
		t.Fatalf("make a network namespace, which needs root: %v", err)
	}
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(loopback); err != nil {
		t.Fatal(err)
	}
}

// connect opens a connection to the load balancer from an address of loopback, and keeps it until the test ends.
func (s *stage) connect(from net.IP, to string) error {
	dialer := &net.Dialer{Timeout: 3 * time.Second, LocalAddr: &net.TCPAddr{IP: from}}
	connection, err := tls.DialWithDialer(dialer, "tcp", to, &tls.Config{RootCAs: s.authority.Pool(), ServerName: apiservertest.ServerName, MinVersion: tls.VersionTLS12})
	if err != nil {
		return err
	}
	s.t.Cleanup(func() { _ = connection.Close() })
	return nil
}

func TestFinding10PodsThatTakeAllConnectionsLeaveKubeletItsOwn(t *testing.T) {
	ownNetwork(t)
	t.Setenv(descriptorsVariable, strconv.Itoa(fewDescriptors))
	s := newStage(t, 1)
	s.config.ServiceAddress = "10.96.0.1:443"
	kubelet := net.IPv4(127, 0, 0, 1)
	s.launch()
	s.eventually("the Service is served", func() bool { return s.connect(kubelet, s.config.ServiceAddress) == nil })
	kept := 0
	for range fewDescriptors {
		// Each pod has an address of its own and keeps a single connection.
		if err := s.connect(net.IPv4(127, 1, 0, byte(kept)), s.config.ServiceAddress); err != nil {
			t.Logf("after %d connections: %v", kept, err)
			break
		}
		kept++
	}
	if kept == fewDescriptors {
		t.Errorf("pods have %d connections, with %d descriptors", kept, fewDescriptors)
	}
	if err := s.connect(kubelet, s.config.ListenAddress); err != nil {
		t.Errorf("kubelet cannot connect while pods have %d connections: %v", kept, err)
	}
}
