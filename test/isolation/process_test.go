//go:build envtest

package isolation

import (
	"errors"
	"net"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAConnectionIsOpenedWhereAProcessIs(t *testing.T) {
	child := exec.Command("cat")
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	input, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		_ = child.Wait()
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	dial := func() error {
		connection, err := net.Dial("tcp", listener.Addr().String())
		if err == nil {
			err = connection.Close()
		}
		return err
	}
	// Nobody has set the loopback of the child's network up.
	if err := InNetworkOf(child.Process.Pid, dial); !errors.Is(err, syscall.ENETUNREACH) && !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("from another network: %v", err)
	}
	if err := dial(); err != nil {
		t.Errorf("from its own: %v", err)
	}
	if err := InNetworkOf(1<<22+1, dial); err == nil {
		t.Error("a process that does not exist has a network")
	}
}
