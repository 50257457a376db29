// Package daemon starts programs that run until they are stopped, and stops them in all the ways there are.
package daemon

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/processes"
)

// lastWords is how many lines of its log an ended program is known by.
const lastWords = 10

// Daemon is a program that runs, with all processes that it started.
type Daemon struct {
	name, log string
	command   *exec.Cmd
	done      chan struct{}
	err       error
}

// Start starts a program. What it writes is appended to the file log.
func Start(log string, argv ...string) (*Daemon, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // The program has a descriptor of its own.
	d := &Daemon{name: filepath.Base(argv[0]), log: log, command: exec.Command(argv[0], argv[1:]...), done: make(chan struct{})}
	d.command.Stdout, d.command.Stderr = file, file
	d.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := d.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", d.name, err)
	}
	go func() {
		d.err = d.command.Wait()
		close(d.done)
	}()
	return d, nil
}

// PID is the process id of the program.
func (d *Daemon) PID() int { return d.command.Process.Pid }

// Done is closed when the program has ended.
func (d *Daemon) Done() <-chan struct{} { return d.done }

// Signal sends a signal to the program and to all processes of its group.
func (d *Daemon) Signal(signal syscall.Signal) error {
	if err := syscall.Kill(-d.PID(), signal); err != nil {
		return fmt.Errorf("send %s to %s: %w", signal, d.name, err)
	}
	return nil
}

// Kill ends the program at once. One that has ended is none to kill.
func (d *Daemon) Kill() {
	_ = d.Signal(syscall.SIGKILL)
	<-d.done
}

// Wait waits until the program has ended by itself or by a signal sent before.
func (d *Daemon) Wait(ctx context.Context) error {
	select {
	case <-d.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s does not end: %w; its last words:\n%s", d.name, context.Cause(ctx), processes.LastLines(d.log, lastWords))
	}
}

// While calls f with a context that ends when the program does, and then returns its last words.
func (d *Daemon) While(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-d.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := f(ctx)
	select {
	case <-d.done:
		return fmt.Errorf("%s ended (%v); its last words:\n%s", d.name, d.err, processes.LastLines(d.log, lastWords)) //nolint:errorlint // Nil for exit code 0.
	default:
	}
	if err != nil {
		return fmt.Errorf("%w; last words of %s:\n%s", err, d.name, processes.LastLines(d.log, lastWords))
	}
	return nil
}
