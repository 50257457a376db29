package health

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"time"
)

// TLS returns the settings of Readyz's connections. read reads the CA's certificates, and identity,
// which may be nil, the client certificate, both anew for each connection. serverName is the name that
// every server's certificate has. A client certificate that cannot be read or has expired is not
// shown: a probe is about the server, and kube-apiserver answers anonymous clients, too.
func TLS(read func() ([]byte, error), serverName string, identity func() (*tls.Certificate, error)) func() (*tls.Config, error) {
	return func() (*tls.Config, error) {
		bundle, err := read()
		if err != nil {
			return nil, err
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(bundle) {
			return nil, errors.New("the CA file holds no certificate")
		}
		config := &tls.Config{RootCAs: roots, ServerName: serverName, MinVersion: tls.VersionTLS12}
		if identity == nil {
			return config, nil
		}
		certificate, err := identity()
		if err == nil && certificate != nil && time.Now().Before(certificate.Leaf.NotAfter) {
			config.Certificates = []tls.Certificate{*certificate}
		}
		return config, nil
	}
}
