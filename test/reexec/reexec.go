// Package reexec has tests look at programs that are told to end, or are killed: each is the test's own program in another
// role, and has a connection to the test, which ends with it.
package reexec

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"
)

const (
	variable = "REEXEC_ROLE"
	// socket is in the folder that the test and its programs run in.
	socket = "socket"
	// patience bounds each wait for a program.
	patience = 30 * time.Second
)

// Role is that of this program; empty for the test itself.
func Role() string { return os.Getenv(variable) }

// Dial connects a program to its test.
func Dial() (net.Conn, error) { return net.Dial("unix", socket) }

// Command runs this program in a role. When the context ends it is killed.
func Command(ctx context.Context, role string) *exec.Cmd {
	program := exec.CommandContext(ctx, "/proc/self/exe")
	program.Env = append(os.Environ(), variable+"="+role)
	return program
}

// Stage is the folder that a test and its programs run in, and where they reach it.
type Stage struct {
	*testing.T
	listener *net.UnixListener
}

// NewStage makes an empty folder the one that the program runs in, until the test ends.
func NewStage(t *testing.T) *Stage {
	t.Helper()
	t.Chdir(t.TempDir())
	s := &Stage{T: t}
	var err error
	s.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	s.Must(err)
	t.Cleanup(func() { _ = s.listener.Close() })
	s.Must(s.listener.SetDeadline(time.Now().Add(patience)))
	return s
}

// Must ends the test at an error.
func (s *Stage) Must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// Cast gives this program's file, run by whatever the test starts from now on, a role.
func (s *Stage) Cast(role string) (file string) {
	s.Helper()
	s.Setenv(variable, role)
	file, err := os.Executable()
	s.Must(err)
	return file
}

// Start starts a program. It ends with the test at the latest.
func (s *Stage) Start(role string) *exec.Cmd {
	s.Helper()
	program := Command(context.WithoutCancel(s.Context()), role)
	s.Must(program.Start())
	s.Cleanup(func() { _ = program.Process.Kill() })
	return program
}

// Accept is the connection of the next program, which ends with the test at the latest.
func (s *Stage) Accept() net.Conn {
	s.Helper()
	connection, err := s.listener.Accept()
	s.Must(err)
	s.Cleanup(func() { _ = connection.Close() })
	s.Must(connection.SetDeadline(time.Now().Add(patience)))
	return connection
}

// Tell has a program go on.
func (s *Stage) Tell(connection net.Conn) {
	s.Helper()
	_, err := connection.Write([]byte{'\n'})
	s.Must(err)
}

// Hear waits until a program says something.
func (s *Stage) Hear(connection net.Conn, want string) {
	s.Helper()
	said := make([]byte, len(want))
	if _, err := io.ReadFull(connection, said); err != nil || string(said) != want {
		s.Fatalf("it said %q and not %q: %v", said, want, err)
	}
}

// Gone waits until a program has ended.
func (s *Stage) Gone(connection net.Conn) {
	s.Helper()
	if _, err := io.Copy(io.Discard, connection); err != nil {
		s.Fatalf("it is still there: %v", err)
	}
}

// ExpectExit waits for a program and compares its exit status.
func (s *Stage) ExpectExit(program *exec.Cmd, want int) {
	s.Helper()
	var exit *exec.ExitError
	if err := program.Wait(); !errors.As(err, &exit) || exit.ExitCode() != want {
		s.Errorf("it ended with %v, not with status %d", err, want)
	}
}
