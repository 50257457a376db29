package isolation

import (
	"fmt"
	"runtime"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// InNetworkOf calls do in the network namespace of a process, such as one of a container. What do starts in other
// goroutines is not there; a connection that it opens stays there.
func InNetworkOf(pid int, do func() error) error {
	done := make(chan error, 1)
	go func() {
		// The thread ends with this goroutine: nothing else ever runs on it.
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// Only the main thread cannot end.
			done <- InNetworkOf(pid, do)
			runtime.UnlockOSThread()
			return
		}
		done <- enterNetworkOf(pid, do)
	}()
	return <-done
}

func enterNetworkOf(pid int, do func() error) error {
	handle, err := netns.GetFromPid(pid)
	if err != nil {
		return fmt.Errorf("open the network namespace of process %d: %w", pid, err)
	}
	defer func() { _ = handle.Close() }()
	if err := netns.Set(handle); err != nil {
		return fmt.Errorf("enter the network namespace of process %d: %w", pid, err)
	}
	return do()
}
