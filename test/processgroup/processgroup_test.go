package processgroup

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"testing"
	"time"
)

const (
	patience = 30 * time.Second
	socket   = "socket"
	// role is the variable that has this program be one of those that the test runs.
	role             = "PROCESSGROUP_TEST_ROLE"
	leader, follower = "leader", "follower"
)

func TestWhatDoesNotEndIsKilled(t *testing.T) {
	t.Chdir(t.TempDir())
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // It ends with the test.
	if err := listener.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	ended := make(chan error, 1)
	go func() { ended <- Run(play(ctx, leader), 10*time.Millisecond) }()
	var programs []net.Conn
	for range 2 {
		connection, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close() //nolint:errcheck // It ends with the test.
		programs = append(programs, connection)
	}
	interrupt()
	if err := <-ended; err == nil {
		t.Error("the command failed and no error tells of it")
	}
	for _, program := range programs {
		if err := program.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, program); err != nil {
			t.Errorf("it is still there: %v", err)
		}
	}
}

func play(ctx context.Context, as string) *exec.Cmd {
	program := exec.CommandContext(ctx, "/proc/self/exe")
	program.Env = append(os.Environ(), role+"="+as)
	return program
}

// TestMain is also the programs that the test runs: they ignore an interrupt, and end with the test.
func TestMain(m *testing.M) {
	as := os.Getenv(role)
	if as == "" {
		os.Exit(m.Run())
	}
	signal.Ignore(os.Interrupt)
	test, err := net.Dial("unix", socket)
	if err == nil && as == leader {
		err = play(context.Background(), follower).Start()
	}
	if err == nil {
		_, err = io.Copy(io.Discard, test)
	}
	if err != nil {
		os.Exit(1)
	}
}
