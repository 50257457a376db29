package health

import (
	"crypto/tls"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/internal/apiservertest"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/internal/wire"
)

// identity is the client certificate that a probe has now.
type identity struct {
	certificate *tls.Certificate
	err         error
}

func (i *identity) read() (*tls.Certificate, error) { return i.certificate, i.err }

func clientOf(t *testing.T, authority *apiservertest.Authority, expires time.Duration) *tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(authority.Client("system:node:w1", expires))
	if err != nil {
		t.Fatal(err)
	}
	return &pair
}

// newKnown is newReadyz with an identity.
func newKnown(t *testing.T, authority *apiservertest.Authority, address string, who *identity) *Readyz {
	t.Helper()
	config := TLS(func() ([]byte, error) { return authority.PEM, nil }, apiservertest.ServerName, who.read)
	r := NewReadyz(address, config, patient, &wire.Counter{})
	t.Cleanup(r.Close)
	return r
}

// probeTimes probes so often and expects success each time. It returns the new connections that it took.
func probeTimes(t *testing.T, times int, r *Readyz, server *apiservertest.Server) int64 {
	t.Helper()
	before := server.Accepted.Load()
	for range times {
		if answer := probeOnce(t, r, 10*time.Second); answer.Kind != Serving {
			t.Fatalf("answer %+v", answer)
		}
	}
	return server.Accepted.Load() - before
}

func TestOnlyWhoShowsACertificateKeepsAConnection(t *testing.T) {
	authority, stranger := apiservertest.NewAuthority(t), apiservertest.NewAuthority(t)
	for name, test := range map[string]struct {
		who *identity
		// connections are those that ten probes take.
		connections int64
	}{
		"one of the cluster":            {&identity{certificate: clientOf(t, authority, time.Hour)}, 1},
		"no certificate yet":            {&identity{err: errors.New("no such file")}, 10},
		"a credential of another kind":  {&identity{}, 10},
		"one that expired":              {&identity{certificate: clientOf(t, authority, -time.Minute)}, 10},
		"one that the server distrusts": {&identity{certificate: clientOf(t, stranger, time.Hour)}, 11},
	} {
		t.Run(name, func(t *testing.T) {
			server := apiservertest.New(t, authority, "127.0.0.2", nil)
			r := newKnown(t, authority, server.Address, test.who)
			if took := probeTimes(t, 10, r, server); took != test.connections {
				t.Errorf("%d connections for ten probes, expected %d", took, test.connections)
			}
		})
	}
}

func TestACertificateThatTheServerRefusesDoesNotCountAgainstIt(t *testing.T) {
	authority := apiservertest.NewAuthority(t)
	server := apiservertest.New(t, authority, "127.0.0.2", nil)
	r := newKnown(t, authority, server.Address, &identity{certificate: clientOf(t, authority, time.Hour)})
	if took := probeTimes(t, 2, r, server); took != 1 {
		t.Errorf("%d connections for two probes", took)
	}
	server.Distrust.Store(true)
	if took := probeTimes(t, 3, r, server); took != 3 {
		t.Errorf("%d connections for three probes without a certificate", took)
	}
	server.Distrust.Store(false)
	r.anonymousUntil = r.anonymousUntil.Add(-anonymity)
	if took := probeTimes(t, 3, r, server); took != 1 {
		t.Errorf("%d connections for three probes with a certificate that is shown again after a while", took)
	}
}

func TestEachNewConnectionShowsTheCertificateOfThatMoment(t *testing.T) {
	authority := apiservertest.NewAuthority(t)
	server := apiservertest.New(t, authority, "127.0.0.2", nil)
	who := &identity{err: errors.New("no such file")}
	r := newKnown(t, authority, server.Address, who)
	if took := probeTimes(t, 3, r, server); took != 3 {
		t.Errorf("%d connections for three probes before there is a certificate", took)
	}
	*who = identity{certificate: clientOf(t, authority, time.Hour)}
	if took := probeTimes(t, 3, r, server); took != 1 {
		t.Errorf("%d connections for three probes with a certificate", took)
	}
}

// A slow server is no reason to hide a certificate.
func TestAQuestionWhoseConnectionWasReplacedSaysNothingOfTheCertificate(t *testing.T) {
	authority := apiservertest.NewAuthority(t)
	server := apiservertest.New(t, authority, "127.0.0.2", nil)
	r := newKnown(t, authority, server.Address, &identity{certificate: clientOf(t, authority, time.Hour)})
	server.Slow.Store(true)
	ended := make(chan struct{})
	alive := make(chan Answer, 1)
	go func() {
		defer close(ended)
		r.Send(t.Context(), func(answer Answer) { alive <- answer })
	}()
	<-alive
	r.lock.Lock()
	r.current.waiting++
	r.lock.Unlock()
	server.Slow.Store(false)
	probeTimes(t, 1, r, server)
	<-ended
	if took := probeTimes(t, 3, r, server); took != 0 || !r.anonymousUntil.IsZero() {
		t.Errorf("%d connections for three probes, no certificate until %v", took, r.anonymousUntil)
	}
}

func TestAServerThatForbidsWhomItKnowsIsAskedByNobody(t *testing.T) {
	authority := apiservertest.NewAuthority(t)
	server := apiservertest.New(t, authority, "127.0.0.2", nil)
	server.Forbid.Store(true)
	r := newKnown(t, authority, server.Address, &identity{certificate: clientOf(t, authority, time.Hour)})
	probeTimes(t, 3, r, server)
}

func TestOneOfTwoQuestionsAtOnceIsAnsweredWhenTheirCertificateIsRefused(t *testing.T) {
	authority := apiservertest.NewAuthority(t)
	server := apiservertest.New(t, authority, "127.0.0.2", nil)
	server.Distrust.Store(true)
	for range 20 {
		r := newKnown(t, authority, server.Address, &identity{certificate: clientOf(t, authority, time.Hour)})
		answers := make(chan Answer, 8)
		var probing sync.WaitGroup
		for range 2 {
			probing.Go(func() { r.Send(t.Context(), func(answer Answer) { answers <- answer }) })
		}
		probing.Wait()
		r.Close()
		served := false
		for len(answers) > 0 {
			switch answer := <-answers; answer.Kind {
			case Serving:
				served = true
			case Alive:
			default:
				t.Errorf("answer %+v", answer)
			}
		}
		if !served {
			t.Error("no answer")
		}
	}
}

// kube-apiserver never does this, but what stands in front of one may.
func TestAServerThatEndsConnectionsWithACertificateIsAskedWithout(t *testing.T) {
	authority, stranger := apiservertest.NewAuthority(t), apiservertest.NewAuthority(t)
	for name, version := range map[string]uint16{"during the handshake": tls.VersionTLS12, "after it": tls.VersionTLS13} {
		t.Run(name, func(t *testing.T) {
			server := apiservertest.New(t, authority, "127.0.0.2", nil)
			server.Strict(version)
			r := newKnown(t, authority, server.Address, &identity{certificate: clientOf(t, stranger, time.Hour)})
			probeTimes(t, 3, r, server)
		})
	}
}
