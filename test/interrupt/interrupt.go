// Package interrupt has programs of tests remove what they made when they are told to end: testing does not, it ends at
// once and calls no clean-up. They are told by SIGINT or SIGTERM, and by SIGHUP, which is also what they get when the
// program that started them is gone: go test passes no signal on. A second SIGINT or SIGTERM ends a program at once.
package interrupt

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// status is the exit status of a program that was told to end, as shells have it.
const status = 130

// notify returns a channel that is closed when the program is told to end.
func notify() <-chan struct{} {
	signals, told := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// Nobody may read any more what the program writes. That is no reason to end before all is removed.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGHUP), 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, "ask to be told when the program that started this one is gone:", err)
	}
	go func() {
		why := <-signals
		signal.Reset(os.Interrupt, syscall.SIGTERM)
		_, _ = fmt.Fprintf(os.Stderr, "%s: remove what was made\n", why)
		close(told)
	}()
	return told
}
