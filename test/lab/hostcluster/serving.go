package hostcluster

import (
	"crypto/tls"
	"net"
	"net/netip"
	"path/filepath"
)

// ServingCertificate is a certificate of the host cluster's authority for a server beside the cluster, at an address and under
// names of hosts, kept under a name, and the authority's own, as PEM.
func ServingCertificate(stateDir, name string, address netip.Addr, hosts ...string) (serving tls.Certificate, authority []byte, err error) {
	p := pki{dir: pkiDir(stateDir)}
	ca, err := p.authority("ca")
	if err != nil {
		return serving, nil, err
	}
	leaf, err := p.leaf(name, ca, subject{user: name, server: true, dns: hosts, ips: []net.IP{address.AsSlice()}})
	if err != nil {
		return serving, nil, err
	}
	serving, err = tls.X509KeyPair(leaf.cert, leaf.key)
	return serving, ca.cert, err
}

func pkiDir(stateDir string) string { return filepath.Join(stateDir, "pki") }
