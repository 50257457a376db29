package artifacts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// command is a program to run with an environment on top of this process's.
type command struct {
	dir, name string
	args, env []string
	stdin     []byte
	// contained gives the program its own mounts and processes: nothing that it mounts is seen outside, and whatever it
	// starts ends with it, however this process ends.
	contained bool
}

// run runs a command and returns its standard output; the end of its standard error is part of the error. When the
// context ends the program is asked to stop, and killed after ten seconds.
func run(ctx context.Context, c command) ([]byte, error) {
	cmd := exec.CommandContext(ctx, c.name, c.args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Stdin = bytes.NewReader(c.stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if c.contained {
		// A parent-death signal is sent when the starting thread ends, so that thread is kept.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		cmd.Cancel = func() error { return cmd.Process.Kill() }
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	}
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, errors.Join(ctx.Err(), err)
		}
		return nil, fmt.Errorf("%s %s: %w\n%s", c.name, strings.Join(c.args, " "), err, tail(stderr.String(), 40))
	}
	return stdout.Bytes(), nil
}

// tail returns the last lines of a text.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return strings.Join(all, "\n")
}
