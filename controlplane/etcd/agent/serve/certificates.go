package serve

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/mounted"
)

// Serving is how the manager and the agent know each other.
type Serving struct {
	// Certificate and Key are files of the agent's own, and ClientCA has the CA of the manager's certificate.
	Certificate, Key, ClientCA string
	// ClientName is the common name of the manager's certificate, and PeerName that by which other members dial; empty where they do not.
	ClientName, PeerName string
}

// certificates are the files of Serving, as they are now.
type certificates struct {
	files Serving
	log   *slog.Logger

	lock sync.Mutex
	// seen are the files that were read last, and config is made of the last ones that fit together.
	seen   []byte
	config *tls.Config
}

// forClient gives what a connection begins with. Files that do not fit together, as while they are renewed, leave those before.
func (c *certificates) forClient(*tls.ClientHelloInfo) (*tls.Config, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	certificate, errCertificate := mounted.Read(c.files.Certificate)
	key, errKey := mounted.Read(c.files.Key)
	ca, errCA := mounted.Read(c.files.ClientCA)
	err := errors.Join(errCertificate, errKey, errCA)
	seen := bytes.Join([][]byte{certificate, key, ca, fmt.Append(nil, err)}, []byte{0})
	if bytes.Equal(seen, c.seen) && c.config != nil {
		return c.config, nil
	}
	var config *tls.Config
	if err == nil {
		config, err = configOf(certificate, key, ca)
	}
	if err == nil {
		c.config = config
	} else if !bytes.Equal(seen, c.seen) {
		c.log.Warn("the certificates cannot be used", "error", err)
	}
	c.seen = seen
	if c.config == nil {
		return nil, errors.New("there is no certificate")
	}
	return c.config, nil
}

func configOf(certificate, key, ca []byte) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("the CA of clients has no certificate in PEM")
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
		// A connection that goes on from an old one would not be judged by a new CA.
		SessionTicketsDisabled: true,
	}, nil
}
