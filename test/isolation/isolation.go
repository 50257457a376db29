// Package isolation runs a program in network, process and mount namespaces of its own: it may have any address, and
// nothing that it starts outlives it or reaches another process of the machine. It needs root.
package isolation

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// marker tells the program that it is the one inside.
const marker = "KOK_TEST_ISOLATED"

// Inside reports whether this is the program that Run started.
func Inside() bool { return os.Getenv(marker) != "" }

// Run calls run in namespaces of its own and returns its exit code. It starts the program again, with the same
// arguments, to be inside; what is outside does nothing but wait.
func Run(run func() int) int {
	if Inside() {
		if err := prepare(); err != nil {
			fmt.Fprintln(os.Stderr, "isolate this program:", err)
			return 1
		}
		return run()
	}
	code, err := runInside()
	if err != nil {
		fmt.Fprintln(os.Stderr, "isolate this program (is this root?):", err)
		return 1
	}
	return code
}

func runInside() (int, error) {
	// The kernel ends what is inside together with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	inside := exec.Command("/proc/self/exe", os.Args[1:]...)
	inside.Args[0] = os.Args[0]
	inside.Env = append(os.Environ(), marker+"=true")
	inside.Stdin, inside.Stdout, inside.Stderr = os.Stdin, os.Stdout, os.Stderr
	inside.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	defer signal.Stop(signals)
	if err := inside.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- inside.Wait() }()
	for {
		select {
		case s := <-signals:
			_ = inside.Process.Signal(s)
		case err := <-ended:
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				return 0, err
			}
			return max(inside.ProcessState.ExitCode(), -inside.ProcessState.ExitCode()), nil
		}
	}
}

// prepare gives the namespaces what programs expect: /proc and a loopback that works.
func prepare() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return prepareNetwork()
}
