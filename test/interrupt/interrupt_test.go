package interrupt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/reexec"
)

func TestWhatWasStartedIsStopped(t *testing.T) {
	for name, test := range map[string]struct {
		signal syscall.Signal
		// starting has the signal sent while it starts.
		starting bool
	}{
		"at an interrupt":                {signal: syscall.SIGINT},
		"at a termination":               {signal: syscall.SIGTERM},
		"when the terminal is gone":      {signal: syscall.SIGHUP},
		"at an interrupt while it began": {signal: syscall.SIGINT, starting: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := reexec.NewStage(t)
			program := s.Start(guarding)
			connection, made := s.Accept(), s.Accept()
			if !test.starting {
				s.Tell(connection)
				s.Hear(connection, started)
			}
			s.Must(program.Process.Signal(test.signal))
			if test.starting {
				s.Tell(connection)
			}
			s.Gone(connection)
			s.Gone(made)
			expectRemoved(t)
			s.ExpectExit(program, status)
		})
	}
}

func TestWhatWasStartedIsStoppedAfterTheProgramThatStartedIt(t *testing.T) {
	s := reexec.NewStage(t)
	program := s.Start(parent)
	connection, made := s.Accept(), s.Accept()
	s.Tell(connection)
	s.Hear(connection, started)
	s.Must(program.Process.Kill())
	s.Gone(connection)
	s.Gone(made)
	expectRemoved(t)
}

func TestASecondInterruptEndsAtOnce(t *testing.T) {
	s := reexec.NewStage(t)
	program := s.Start(stuck)
	connection, made := s.Accept(), s.Accept()
	s.Tell(connection)
	s.Hear(connection, started)
	s.Must(program.Process.Signal(syscall.SIGINT))
	s.Hear(connection, stopping)
	s.Must(program.Process.Signal(syscall.SIGINT))
	s.Gone(connection)
	_ = program.Wait()
	if ended := program.ProcessState.Sys().(syscall.WaitStatus); !ended.Signaled() || ended.Signal() != syscall.SIGINT {
		t.Errorf("it ended with %s", program.ProcessState)
	}
	s.Must(made.Close())
}

func TestTestsThatCleanUpThemselvesAreToldBySignal(t *testing.T) {
	s := reexec.NewStage(t)
	program := s.Start(telling)
	connection := s.Accept()
	s.Hear(connection, started)
	s.Must(program.Process.Signal(syscall.SIGTERM))
	s.Hear(connection, stopping)
	s.Tell(connection)
	s.Gone(connection)
	s.ExpectExit(program, status)
}

func TestTestsThatNobodyEndsHaveTheirOwnStatus(t *testing.T) {
	if code := Run(func(ctx context.Context) int {
		if ctx.Err() != nil {
			t.Error("their context has ended")
		}
		return 7
	}); code != 7 {
		t.Errorf("their status is %d", code)
	}
}

func TestWhatDidNotStartIsStoppedOnce(t *testing.T) {
	var calls int
	broken, left := errors.New("broken"), errors.New("left over")
	end, err := Guard(func() error { return broken }, func() error { calls++; return left })
	if end != nil || calls != 1 || !errors.Is(err, broken) || !errors.Is(err, left) {
		t.Errorf("stopped %d times: %v", calls, err)
	}
}

func TestWhatEndedIsNotStoppedAgain(t *testing.T) {
	var calls int
	end, err := Guard(func() error { return nil }, func() error { calls++; return nil })
	if err == nil {
		err = end()
	}
	if err != nil || calls != 1 || len(running) != 0 {
		t.Errorf("stopped %d times, %d are to be stopped: %v", calls, len(running), err)
	}
}

// folder is what a program makes.
const folder = "made"

func expectRemoved(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}

// This program is also those that tests look at.
const (
	guarding = "guarding"
	// stuck guards what it cannot stop.
	stuck = "stuck"
	// parent starts one that is guarding.
	parent  = "parent"
	telling = "telling"
	idle    = "idle"

	started  = "started\n"
	stopping = "stopping\n"
)

func TestMain(m *testing.M) {
	role := reexec.Role()
	switch role {
	case "":
		os.Exit(m.Run())
	case parent:
		child := reexec.Command(context.Background(), guarding)
		// As go test does, which reads what its programs write.
		child.Stdout, child.Stderr = &bytes.Buffer{}, &bytes.Buffer{}
		_ = child.Run()
		return
	}
	test, err := reexec.Dial()
	if err == nil {
		switch role {
		case guarding, stuck:
			err = guard(test, role == stuck)
		case telling:
			os.Exit(Run(func(ctx context.Context) int { return tell(ctx, test) }))
		case idle:
			_, err = io.Copy(io.Discard, test)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// guard makes a folder and a process in a group of its own, as the API server of a test is.
func guard(test net.Conn, stuck bool) error {
	child := reexec.Command(context.Background(), idle)
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	start := func() error {
		if err := os.Mkdir(folder, 0o700); err != nil {
			return err
		}
		if err := child.Start(); err != nil {
			return err
		}
		_, err := test.Read(make([]byte, 1))
		return err
	}
	stop := func() error {
		_, err := io.WriteString(test, stopping)
		if stuck {
			select {}
		}
		err = errors.Join(err, child.Process.Kill())
		_ = child.Wait()
		return errors.Join(err, os.Remove(folder))
	}
	if _, err := Guard(start, stop); err != nil {
		return err
	}
	if _, err := io.WriteString(test, started); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, test)
	return err
}

// tell says when its context ended, and goes on when the test says so.
func tell(ctx context.Context, test net.Conn) int {
	if _, err := io.WriteString(test, started); err != nil {
		return 1
	}
	<-ctx.Done()
	if _, err := io.WriteString(test, stopping); err != nil {
		return 1
	}
	_, _ = test.Read(make([]byte, 1))
	return 0
}
