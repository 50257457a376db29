//go:build envtest

package controllers

import (
	"io"
	"net"
	"slices"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
)

// spreader balances connections over its backends in turn, as a worker's load balancer does.
type spreader struct {
	listener net.Listener
	backends atomic.Pointer[[]string]
	next     atomic.Int64
}

func spread(t *testing.T) *spreader {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	s := &spreader{listener: listener}
	s.backends.Store(&[]string{})
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(connection)
		}
	}()
	return s
}

func (s *spreader) serve(connection net.Conn) {
	defer func() { _ = connection.Close() }()
	backends := *s.backends.Load()
	if len(backends) == 0 {
		return
	}
	backend, err := net.Dial("tcp", backends[int(s.next.Add(1))%len(backends)])
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(backend, connection)
		_ = backend.Close()
	}()
	_, _ = io.Copy(connection, backend)
}

// add returns a function that takes the backend away.
func (s *spreader) add(backend string) func() {
	with := append([]string{backend}, *s.backends.Load()...)
	s.backends.Store(&with)
	return func() {
		without := slices.DeleteFunc(slices.Clone(*s.backends.Load()), func(other string) bool { return other == backend })
		s.backends.Store(&without)
	}
}
