package program

import (
	"net"
	"strconv"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/configuration"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/internal/apiservertest"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
)

// withAdditional adds a server at another port of the first API server's host, and a listener for it.
func (s *stage) withAdditional() (server *apiservertest.Server, address string) {
	s.t.Helper()
	server = apiservertest.New(s.t, s.authority, "127.0.0.2", nil)
	_, text, _ := net.SplitHostPort(server.Address)
	port, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatal(err)
	}
	address = loopback.Free(s.t).String()
	s.config.AdditionalListeners = []configuration.Listener{{ListenAddress: address, BackendPort: port}}
	return server, address
}

func TestAnAdditionalListenerLeadsToItsPortUntilTheEnd(t *testing.T) {
	s := newStage(t, 2)
	server, address := s.withAdditional()
	s.confirmed()
	// Clients dial the additional address from here on.
	dialled := *s.config
	dialled.ListenAddress = address
	s.config = &dialled
	name := ""
	s.eventually("the other port answers", func() bool {
		var err error
		name, err = s.get(t.Context(), s.client())
		return err == nil
	})
	if name != server.Address {
		t.Errorf("%s answered, want %s", name, server.Address)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", address); err == nil {
		t.Error("it still listens")
	}
}

func TestAnAdditionalAddressInUseKeepsNoAPIServerAway(t *testing.T) {
	s := newStage(t, 1)
	_, address := s.withAdditional()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	s.confirmed()
	if _, err := s.get(t.Context(), s.client()); err != nil {
		t.Error(err)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
}
