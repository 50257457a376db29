package noise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// Role is that of the program that makes noise; see package reexec.
	Role = "noise"

	// nice is below the usual priority: who measures, and the tenants, go first. Where the processors do not suffice for
	// the load, less of it is made, and the report tells.
	nice = 5
	// often is the time between two reports.
	often = 200 * time.Millisecond
)

// Main is the program that makes noise: it reads settings from its standard input, writes reports to its standard output, and
// ends when nothing can be read any more. It returns its exit status.
func Main() int {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "make noise:", err)
		return 1
	}
	return 0
}

func run(in io.Reader, out io.Writer) error {
	if err := step(); err != nil {
		return err
	}
	settings := &Settings{}
	if err := json.NewDecoder(in).Decode(settings); err != nil {
		return fmt.Errorf("read settings: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		stop()
	}()
	var reporting sync.WaitGroup
	defer reporting.Wait()
	defer stop()
	return settings.make(ctx, func(n *noise) { reporting.Go(func() { n.tell(ctx, json.NewEncoder(out)) }) })
}

// tell writes reports until the context ends.
func (n *noise) tell(ctx context.Context, out *json.Encoder) {
	ticker := time.NewTicker(often)
	defer ticker.Stop()
	for {
		if err := out.Encode(n.report()); err != nil {
			return // Nobody reads them any more.
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// step gives all threads of this program a lower priority, and its session, which is its own: the kernel may share out the
// processors by sessions first.
func step() error {
	threads, err := filepath.Glob("/proc/self/task/*")
	if err != nil {
		return err
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(filepath.Base(thread))
		if err != nil {
			return err
		}
		if err := unix.Setpriority(unix.PRIO_PROCESS, id, nice); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("lower the priority of thread %d: %w", id, err)
		}
	}
	// Not every kernel has it.
	_ = os.WriteFile("/proc/self/autogroup", []byte(strconv.Itoa(nice)), 0)
	return nil
}

// Process is a program that makes noise.
type Process struct {
	command *exec.Cmd
	stdin   io.WriteCloser
	ended   chan struct{}

	lock sync.Mutex
	last Report
	err  error
}

// Start has a command, which calls Main, make noise until Stop. The end of the command's context kills it.
func Start(command *exec.Cmd, settings *Settings) (*Process, error) {
	p := &Process{command: command, ended: make(chan struct{})}
	command.Stderr = os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var err error
	if p.stdin, err = command.StdinPipe(); err != nil {
		return nil, err
	}
	reports, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start noise: %w", err)
	}
	go p.listen(reports)
	if err := json.NewEncoder(p.stdin).Encode(settings); err != nil {
		return nil, errors.Join(fmt.Errorf("tell what noise to make: %w", err), p.Stop())
	}
	return p, nil
}

// listen keeps the last report until the program ends.
func (p *Process) listen(reports io.Reader) {
	defer close(p.ended)
	lines := json.NewDecoder(reports)
	for {
		var report Report
		if err := lines.Decode(&report); err != nil {
			break
		}
		p.lock.Lock()
		p.last = report
		p.lock.Unlock()
	}
	err := p.command.Wait()
	p.lock.Lock()
	defer p.lock.Unlock()
	p.err = err
}

// Report is what was done until a moment ago, or why nothing is done any more.
func (p *Process) Report() (Report, error) {
	select {
	case <-p.ended:
		p.lock.Lock()
		defer p.lock.Unlock()
		return p.last, errors.Join(errors.New("the program that makes noise has ended"), p.err)
	default:
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.last, nil
}

// Stop ends the noise and waits until it is quiet. It may be called again.
func (p *Process) Stop() error {
	_ = p.stdin.Close()
	<-p.ended
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.err
}

// CPU is the processor time that the program took, once it has ended.
func (p *Process) CPU() time.Duration {
	<-p.ended
	return p.command.ProcessState.UserTime() + p.command.ProcessState.SystemTime()
}
