//go:build root

package isolation

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAConnectionIsOpenedWhereAProcessIs(t *testing.T) {
	child := idle(t, &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	dial := func() error { return dial(listener.Addr()) }
	// Nobody has set the loopback of the child's network up.
	if err := InNetworkOf(child.Pid, dial); !errors.Is(err, syscall.ENETUNREACH) && !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("from another network: %v", err)
	}
	if err := dial(); err != nil {
		t.Errorf("from its own: %v", err)
	}
	if err := InNetworkOf(1<<22+1, dial); err == nil {
		t.Error("a process that does not exist has a network")
	}
}
