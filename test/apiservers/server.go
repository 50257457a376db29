package apiservers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/daemon"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/isolation"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/processes"
)

// Server is one kube-apiserver. It is for one goroutine at a time.
type Server struct {
	process *processes.Process
	log     string
	daemon  *daemon.Daemon
}

// Address is its host:port.
func (s *Server) Address() string {
	return net.JoinHostPort(s.process.Address.String(), strconv.Itoa(components.DefaultAPIServerPort))
}

// Start starts it, also again after it ended.
func (s *Server) Start() error {
	if err := isolation.AddAddress(s.process.Address); err != nil {
		return err
	}
	var err error
	s.daemon, err = daemon.Start(s.log, s.process.Argv...)
	return err
}

// Running reports whether it was started and has not ended.
func (s *Server) Running() bool {
	if s.daemon == nil {
		return false
	}
	select {
	case <-s.daemon.Done():
		return false
	default:
		return true
	}
}

// Ready waits until it is ready.
func (s *Server) Ready(ctx context.Context) error {
	client := probe.Client(probe.Direct())
	defer client.CloseIdleConnections()
	return s.daemon.While(ctx, func(ctx context.Context) error {
		if err := probe.UntilOK(ctx, client, s.process.URL); err != nil {
			return fmt.Errorf("wait until %s is ready: %w", s.Address(), err)
		}
		return nil
	})
}

// Usage is what it uses of the machine.
func (s *Server) Usage() (daemon.Usage, error) { return s.daemon.Usage() }

// Kill ends it at once (SIGKILL).
func (s *Server) Kill() { s.daemon.Kill() }

// Suspend has it hang (SIGSTOP): its kernel goes on, it does not.
func (s *Server) Suspend() error { return s.daemon.Signal(syscall.SIGSTOP) }

// Resume ends Suspend.
func (s *Server) Resume() error { return s.daemon.Signal(syscall.SIGCONT) }

// Terminate begins its graceful end (SIGTERM).
func (s *Server) Terminate() error { return s.daemon.Signal(syscall.SIGTERM) }

// Ended waits until it has ended.
func (s *Server) Ended(ctx context.Context) error { return s.daemon.Wait(ctx) }

// Vanish takes its address away after it ended: whoever tries it gets no answer, as from a host without power.
func (s *Server) Vanish() error {
	if s.Running() {
		return errors.New("end a kube-apiserver before its address is taken away")
	}
	return isolation.RemoveAddress(s.process.Address)
}

// ShutdownDelay is how long a kube-apiserver goes on as before once its graceful end began
// (--shutdown-delay-duration).
const ShutdownDelay = 10 * time.Second
