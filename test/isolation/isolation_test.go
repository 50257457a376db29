//go:build root

package isolation

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/procfs"
)

func TestMain(m *testing.M) { os.Exit(Run(m.Run)) }

func TestAnAddressIsReachedUntilItIsTakenAway(t *testing.T) {
	address := Prefix.Addr().Next()
	if err := AddAddress(address); err != nil {
		t.Fatal(err)
	}
	if err := AddAddress(address); err != nil {
		t.Errorf("an address that is there already: %v", err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(address.String(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	dial := func() error { return dial(listener.Addr()) }
	if err := dial(); err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := dial(); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a port that nobody listens at: %v", err)
	}
	// Another address stays, so that there is one to send from.
	if err := AddAddress(address.Next()); err != nil {
		t.Fatal(err)
	}
	if err := RemoveAddress(address); err != nil {
		t.Fatal(err)
	}
	if err := dial(); !errors.Is(err, context.DeadlineExceeded) && !os.IsTimeout(err) {
		t.Errorf("a host without power: %v", err)
	}
}

func TestProcessesOfTheMachineAreNotSeen(t *testing.T) {
	child := idle(t, &syscall.SysProcAttr{})
	all, err := procfs.AllProcs()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, process := range all {
		seen[process.PID] = true
	}
	if os.Getpid() != 1 || len(seen) != 2 || !seen[1] || !seen[child.Pid] {
		t.Errorf("this is process %d of %v, its child is %d", os.Getpid(), seen, child.Pid)
	}
}

// idle is a process that does nothing until the test ends.
func idle(t *testing.T, attributes *syscall.SysProcAttr) *os.Process {
	t.Helper()
	child := exec.Command("cat")
	child.SysProcAttr = attributes
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
	return child.Process
}

// dial opens a connection and closes it.
func dial(address net.Addr) error {
	connection, err := net.DialTimeout(address.Network(), address.String(), 300*time.Millisecond)
	if err != nil {
		return err
	}
	return connection.Close()
}
