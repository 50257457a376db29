package clock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// patience bounds the wait until no thread of a process runs.
const patience = 30 * time.Second

// Shift has the clock of a Go program be ahead by so many whole seconds, or behind where they are negative, until back is called or the
// process ends. The process stands still for a moment. It must be one of amd64, and its clock right.
func Shift(ctx context.Context, pid int, ahead time.Duration) (back func(context.Context) error, err error) {
	if runtime.GOARCH != "amd64" {
		return nil, errors.New("shift the clock of a process: there is code for amd64 alone")
	}
	p := process(pid)
	right, wrong, err := p.clocks(codeOf(ahead))
	if err != nil {
		return nil, fmt.Errorf("read the clock of process %d: %w", pid, err)
	}
	at, err := p.holds(right)
	if err != nil {
		return nil, fmt.Errorf("find where process %d has the address of its clock: %w", pid, err)
	}
	if err := p.whileStopped(ctx, func() error { return errors.Join(p.write(codeOf(ahead), wrong), p.write(bytesOf(wrong), at)) }); err != nil {
		return nil, fmt.Errorf("shift the clock of process %d: %w", pid, err)
	}
	return func(ctx context.Context) error {
		err := p.whileStopped(ctx, func() error { return p.write(bytesOf(right), at) })
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("shift the clock of process %d back: %w", pid, err)
		}
		return nil
	}, nil
}

// process is one of this machine, by its number.
type process int

// whileStopped does something while no thread of the process runs.
func (p process) whileStopped(ctx context.Context, do func() error) (err error) {
	if err := syscall.Kill(int(p), syscall.SIGSTOP); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, syscall.Kill(int(p), syscall.SIGCONT)) }()
	err = wait.PollUntilContextTimeout(ctx, time.Millisecond, patience, true, func(context.Context) (bool, error) {
		threads, err := filepath.Glob(p.path("task", "*", "syscall"))
		if err != nil || len(threads) == 0 {
			return false, errors.Join(err, syscall.ESRCH)
		}
		for _, thread := range threads {
			// Of a thread that waits in the kernel, or is stopped, it says where: proc_pid_syscall(5).
			text, err := os.ReadFile(thread)
			if err != nil || strings.TrimSpace(string(text)) == "running" {
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("wait until it stands still: %w", err)
	}
	return do()
}

func (p process) path(parts ...string) string {
	return filepath.Join(append([]string{"/proc", strconv.Itoa(int(p))}, parts...)...)
}
