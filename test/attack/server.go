package attack

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync/atomic"
)

// Server is a server of the attacker on the worker.
type Server struct {
	*Canary
	Address netip.AddrPort
	asked   atomic.Int64
}

// ports of canaries and servers: below those of host ports and of outgoing connections.
var lastPort atomic.Uint32

// NextPort is one that no other canary has.
func NextPort() uint16 { return uint16(12000 + lastPort.Add(1)%6000) } //nolint:gosec // It fits.

// Serve answers at a new port of the worker's address.
func (a *Attacker) Serve(certificate *tls.Certificate, handler http.Handler) (*Server, error) {
	s := &Server{Address: netip.AddrPortFrom(a.Worker.Address, NextPort())}
	counting := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		handler.ServeHTTP(w, r)
	})
	var err error
	s.Canary, err = Plant(s.Address.Port(), certificate, counting, ListenAt(a.Worker, a.Worker.Address))
	return s, err
}

// Close ends it.
func (s *Server) Close() { _ = s.Canary.Close() }

// errNotAsked is a try that did not get as far as it should: it proves nothing.
var errNotAsked = errors.New("nobody asked the attacker's own server")

// expectAsked keeps an error, and says so where nobody asked the server: then nothing was tried.
func (s *Server) expectAsked(answer string, err error) error {
	if s.asked.Load() == 0 {
		return errors.Join(fmt.Errorf("%w, and there came %q", errNotAsked, answer), err)
	}
	return err
}
