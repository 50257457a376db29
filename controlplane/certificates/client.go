package certificates

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/untrusted"
)

// TenantServerName is a name in every tenant's serving certificate. A client that dials an address which the certificate
// lacks, such as a host node's, verifies this name.
const TenantServerName = "kubernetes.default.svc"

// clientCertificates issues client certificates that live an hour and never leave memory.
type clientCertificates struct {
	leaf   Leaf
	issuer *pki.CA
	clock  clock.PassiveClock
	// trusted are the CAs that servers are verified by, as PEM.
	trusted []byte

	lock    sync.Mutex
	current *tls.Certificate
	renewAt time.Time
}

// get returns a certificate that is valid for at least half of its life; the same one as long as that is true.
func (c *clientCertificates) get() (*tls.Certificate, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	now := c.clock.Now()
	if c.current != nil && now.Before(c.renewAt) {
		return c.current, nil
	}
	certPEM, keyPEM, err := c.leaf.issue(c.issuer, now, clientLife)
	if err != nil {
		return nil, fmt.Errorf("issue client certificate of %s: %w", c.leaf.CommonName, err)
	}
	issued, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("read client certificate of %s: %w", c.leaf.CommonName, err)
	}
	c.current, c.renewAt = &issued, now.Add(clientLife/2)
	return c.current, nil
}

func (i Issuer) clientCertificates(signer pki.Signer, commonName string, organizations []string) (*clientCertificates, error) {
	issuer, err := i.Keys.CAByFile(signer, i.Keys.Files(string(signer)).Used)
	if err != nil {
		return nil, fmt.Errorf("client certificate of %s: %w", commonName, err)
	}
	cas, err := Trusted(i.Keys, signer)
	if err != nil {
		return nil, err
	}
	return &clientCertificates{
		leaf: Leaf{
			Name: "client", Signer: signer, CommonName: commonName, Organizations: organizations,
			Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		},
		issuer:  issuer,
		clock:   i.Clock,
		trusted: cas,
	}, nil
}

// ClientTLS is a TLS configuration for a client of servers that the signer certified. Its client
// certificate lives an hour and is made anew for new connections, so the configuration itself
// never expires. serverName is what servers are verified by; empty: the name that is dialled.
//
// While the signer rotates, servers of two phases run. The client trusts the CAs of the present phase, and that by which servers of the
// phase before show certificates. The client shows a certificate by the CA that is in use, which every server trusts.
func (i Issuer) ClientTLS(signer pki.Signer, commonName string, organizations []string, serverName string) (*tls.Config, error) {
	certificates, err := i.clientCertificates(signer, commonName, organizations)
	if err != nil {
		return nil, err
	}
	return certificates.tlsConfig(serverName), nil
}

// ClientIdentity changes when clients of ClientTLS trust other CAs, or show certificates by another CA.
func ClientIdentity(keys *pki.KeyMaterial, signer pki.Signer) string {
	cas, _ := Trusted(keys, signer) // ClientTLS tells of the error.
	return keys.Files(string(signer)).Used + "\n" + string(cas)
}

// Trusted are the CAs by which clients verify servers in the phase of the signer's rotation, as PEM.
func Trusted(keys *pki.KeyMaterial, signer pki.Signer) ([]byte, error) {
	return keys.Bundle(signer, keys.ClientTrust(signer)...)
}

func (c *clientCertificates) tlsConfig(serverName string) *tls.Config {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.trusted)
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		RootCAs:    roots,
		ServerName: serverName,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return c.get()
		},
	}
}

// RESTConfig is a client configuration for the tenant's API at server, a URL, by a client
// certificate of the cluster CA. It never expires: requests go over new connections once the
// certificate is past half of its hour.
//
// It brings its own transport: client-go keeps one for every certificate that it was ever given.
func (i Issuer) RESTConfig(server, commonName string, organizations []string) (*rest.Config, error) {
	certificates, err := i.clientCertificates(pki.ClusterCA, commonName, organizations)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host: server,
		// The tenant's API server limits by priority and fairness. A limit here would only make creation slower.
		QPS: -1,
		Transport: untrusted.WithoutRedirects(&renewingTransport{
			certificates: certificates,
			make: func() *http.Transport {
				dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}
				return utilnet.SetTransportDefaults(&http.Transport{
					// No proxy, because the tenant's API is in the host cluster's network.
					Proxy:               func(*http.Request) (*url.URL, error) { return nil, nil },
					DialContext:         dialer.DialContext,
					TLSClientConfig:     certificates.tlsConfig(TenantServerName),
					TLSHandshakeTimeout: 5 * time.Second,
					MaxIdleConnsPerHost: 4,
					IdleConnTimeout:     90 * time.Second,
					// No compression: a small compressed answer may be very large once decompressed.
					DisableCompression:     true,
					MaxResponseHeaderBytes: 64 << 10,
				})
			},
		}),
	}, nil
}

// renewingTransport opens new connections when the client certificate was renewed: kube-apiserver
// checks with every request that the certificate of the connection has not expired.
type renewingTransport struct {
	certificates *clientCertificates
	make         func() *http.Transport

	lock    sync.Mutex
	current *http.Transport
	// madeFor is the certificate that current began with.
	madeFor *tls.Certificate
}

// RoundTrip sends the request with a certificate that is valid for half an hour at least.
func (t *renewingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	transport, err := t.transport()
	if err != nil {
		return nil, err
	}
	return transport.RoundTrip(request)
}

func (t *renewingTransport) transport() (*http.Transport, error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	certificate, err := t.certificates.get()
	if err != nil {
		return nil, err
	}
	if t.madeFor != certificate {
		t.closeIdle()
		t.current, t.madeFor = t.make(), certificate
	}
	return t.current, nil
}

// CloseIdleConnections lets http.Client.CloseIdleConnections reach the transport.
func (t *renewingTransport) CloseIdleConnections() {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.closeIdle()
}

func (t *renewingTransport) closeIdle() {
	if t.current != nil {
		t.current.CloseIdleConnections()
	}
}
