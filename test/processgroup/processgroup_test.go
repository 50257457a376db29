package processgroup

import (
	"context"
	"io"
	"net"
	"os"
	"os/signal"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/reexec"
)

// A leader starts a follower.
const leader, follower = "leader", "follower"

func TestWhatDoesNotEndIsKilled(t *testing.T) {
	s := reexec.NewStage(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	ended := make(chan error, 1)
	go func() { ended <- Run(reexec.Command(ctx, leader), 10*time.Millisecond) }()
	programs := []net.Conn{s.Accept(), s.Accept()}
	interrupt()
	if err := <-ended; err == nil {
		t.Error("the command failed and no error tells of it")
	}
	for _, program := range programs {
		s.Gone(program)
	}
}

// TestMain is also the programs that the test runs: they ignore an interrupt, and end with the test.
func TestMain(m *testing.M) {
	role := reexec.Role()
	if role == "" {
		os.Exit(m.Run())
	}
	signal.Ignore(os.Interrupt)
	test, err := reexec.Dial()
	if err == nil && role == leader {
		err = reexec.Command(context.Background(), follower).Start()
	}
	if err == nil {
		_, err = io.Copy(io.Discard, test)
	}
	if err != nil {
		os.Exit(1)
	}
}
