package interrupt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
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
			s := newStage(t)
			program := s.start(guarding)
			connection, made := s.accept(), s.accept()
			if !test.starting {
				s.tell(connection)
				s.hear(connection, started)
			}
			s.must(program.Process.Signal(test.signal))
			if test.starting {
				s.tell(connection)
			}
			s.gone(connection)
			s.gone(made)
			s.removed()
			var exit *exec.ExitError
			if err := program.Wait(); !errors.As(err, &exit) || exit.ExitCode() != status {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

func TestWhatWasStartedIsStoppedAfterTheProgramThatStartedIt(t *testing.T) {
	s := newStage(t)
	program := s.start(parent)
	connection, made := s.accept(), s.accept()
	s.tell(connection)
	s.hear(connection, started)
	s.must(program.Process.Kill())
	s.gone(connection)
	s.gone(made)
	s.removed()
}

func TestASecondInterruptEndsAtOnce(t *testing.T) {
	s := newStage(t)
	program := s.start(stuck)
	connection, made := s.accept(), s.accept()
	s.tell(connection)
	s.hear(connection, started)
	s.must(program.Process.Signal(syscall.SIGINT))
	s.hear(connection, stopping)
	s.must(program.Process.Signal(syscall.SIGINT))
	s.gone(connection)
	_ = program.Wait()
	if ended := program.ProcessState.Sys().(syscall.WaitStatus); !ended.Signaled() || ended.Signal() != syscall.SIGINT {
		t.Errorf("it ended with %s", program.ProcessState)
	}
	s.must(made.Close())
}

func TestTestsThatCleanUpThemselvesAreToldBySignal(t *testing.T) {
	s := newStage(t)
	program := s.start(telling)
	connection := s.accept()
	s.hear(connection, started)
	s.must(program.Process.Signal(syscall.SIGTERM))
	s.hear(connection, stopping)
	s.tell(connection)
	s.gone(connection)
	var exit *exec.ExitError
	if err := program.Wait(); !errors.As(err, &exit) || exit.ExitCode() != status {
		t.Errorf("it ended with %v", err)
	}
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

// stage is the folder that a test runs programs in, and where they reach it.
type stage struct {
	*testing.T
	listener *net.UnixListener
}

const (
	patience = 30 * time.Second
	socket   = "socket"
	// folder is what a program makes.
	folder = "made"
)

func newStage(t *testing.T) *stage {
	t.Helper()
	t.Chdir(t.TempDir())
	s := &stage{T: t}
	var err error
	s.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	s.must(err)
	t.Cleanup(func() { _ = s.listener.Close() })
	s.must(s.listener.SetDeadline(time.Now().Add(patience)))
	return s
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *stage) start(role string) *exec.Cmd {
	s.Helper()
	program := play(role)
	s.must(program.Start())
	s.Cleanup(func() { _ = program.Process.Kill() })
	return program
}

// accept is the connection of the next program; one that is there ends with the test at the latest.
func (s *stage) accept() net.Conn {
	s.Helper()
	connection, err := s.listener.Accept()
	s.must(err)
	s.Cleanup(func() { _ = connection.Close() })
	s.must(connection.SetDeadline(time.Now().Add(patience)))
	return connection
}

// tell has a program go on.
func (s *stage) tell(connection net.Conn) {
	s.Helper()
	_, err := connection.Write([]byte{'\n'})
	s.must(err)
}

// hear waits until a program says something.
func (s *stage) hear(connection net.Conn, want string) {
	s.Helper()
	said := make([]byte, len(want))
	if _, err := io.ReadFull(connection, said); err != nil || string(said) != want {
		s.Fatalf("it said %q and not %q: %v", said, want, err)
	}
}

// gone waits until a program has ended.
func (s *stage) gone(connection net.Conn) {
	s.Helper()
	if _, err := io.Copy(io.Discard, connection); err != nil {
		s.Fatalf("it is still there: %v", err)
	}
}

func (s *stage) removed() {
	s.Helper()
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		s.Errorf("the folder is still there: %v", err)
	}
}

// This program is also those that tests look at.
const (
	roleVariable = "INTERRUPT_TEST_ROLE"

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

func play(role string) *exec.Cmd {
	program := exec.Command("/proc/self/exe")
	program.Env = append(os.Environ(), roleVariable+"="+role)
	return program
}

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	switch role {
	case "":
		os.Exit(m.Run())
	case parent:
		child := play(guarding)
		// As go test does, which reads what its programs write.
		child.Stdout, child.Stderr = &bytes.Buffer{}, &bytes.Buffer{}
		_ = child.Run()
		return
	}
	test, err := net.Dial("unix", socket)
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
	child := play(idle)
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
