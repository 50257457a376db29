package attack

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// handshake is the first byte of what a client of TLS sends.
const handshake = 0x16

// Canary listens at some places at the same port, with TLS and without. It serves a token that is its own, and knows who
// connected.
type Canary struct {
	// Token is what it answers.
	Token string
	// Port is that of all its listeners.
	Port uint16

	listeners []net.Listener
	lock      sync.Mutex
	visitors  []netip.Addr
}

// Listen opens a listener at one place.
type Listen func(port uint16) (net.Listener, error)

// Plant makes a canary. handler is what it answers instead of its token, if it is not nil.
func Plant(port uint16, certificate *tls.Certificate, handler http.Handler, places ...Listen) (*Canary, error) {
	c := &Canary{Token: rand.Text(), Port: port}
	if handler == nil {
		handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.Token) })
	}
	for _, listen := range places {
		listener, err := listen(port)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.listeners = append(c.listeners, listener)
		server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: silent}
		go func() { _ = server.Serve(&watched{Listener: listener, canary: c, certificate: certificate}) }()
	}
	return c, nil
}

// Visitors are the addresses that connections came from, in their order.
func (c *Canary) Visitors() []netip.Addr {
	c.lock.Lock()
	defer c.lock.Unlock()
	return append([]netip.Addr(nil), c.visitors...)
}

// Close ends it.
func (c *Canary) Close() error {
	var errs []error
	for _, listener := range c.listeners {
		errs = append(errs, listener.Close())
	}
	return errors.Join(errs...)
}

// watched is a listener that writes down who connects.
type watched struct {
	net.Listener
	canary      *Canary
	certificate *tls.Certificate
}

func (w *watched) Accept() (net.Conn, error) {
	connection, err := w.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if from, err := netip.ParseAddrPort(connection.RemoteAddr().String()); err == nil {
		w.canary.lock.Lock()
		w.canary.visitors = append(w.canary.visitors, from.Addr().Unmap())
		w.canary.lock.Unlock()
	}
	return &either{Conn: connection, certificate: w.certificate}, nil
}

// either is a connection with TLS or without, as the client begins it.
type either struct {
	net.Conn
	certificate *tls.Certificate
	once        sync.Once
	inner       net.Conn
}

func (e *either) begin() net.Conn {
	e.once.Do(func() {
		reader := bufio.NewReader(e.Conn)
		peeked := &buffered{Conn: e.Conn, reader: reader}
		e.inner = peeked
		if first, err := reader.Peek(1); err == nil && first[0] == handshake {
			e.inner = tls.Server(peeked, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*e.certificate}})
		}
	})
	return e.inner
}

func (e *either) Read(p []byte) (int, error)  { return e.begin().Read(p) }
func (e *either) Write(p []byte) (int, error) { return e.begin().Write(p) }

type buffered struct {
	net.Conn
	reader *bufio.Reader
}

func (b *buffered) Read(p []byte) (int, error) { return b.reader.Read(p) }

// Certificate makes a certificate that signs itself, for names and addresses, and gives it as PEM, too.
func Certificate(names []string, addresses ...netip.Addr) (*tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "canary"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, DNSNames: names,
	}
	for _, address := range addresses {
		template.IPAddresses = append(template.IPAddresses, address.AsSlice())
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, fmt.Errorf("make the certificate of a canary: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
