package isolation

import (
	"fmt"
	"runtime"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// OnThread calls do on a thread of its own that ends with it, so that do may change the thread's namespaces and
// cgroups. What do starts in other goroutines is not there. The main thread is never used: the runtime cannot end it.
func OnThread(do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			done <- OnThread(do)
			runtime.UnlockOSThread()
			return
		}
		done <- do()
	}()
	return <-done
}

// InNetworkOf calls do in the network namespace of a process, such as one of a container. A connection that it opens
// stays there.
func InNetworkOf(pid int, do func() error) error {
	return OnThread(func() error {
		handle, err := netns.GetFromPid(pid)
		if err != nil {
			return fmt.Errorf("open the network namespace of process %d: %w", pid, err)
		}
		defer func() { _ = handle.Close() }()
		if err := netns.Set(handle); err != nil {
			return fmt.Errorf("enter the network namespace of process %d: %w", pid, err)
		}
		return do()
	})
}
