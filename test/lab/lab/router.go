package lab

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/hostcluster"
)

// ListenOnRouter listens on a port of the router, for hosts of both sites and for this machine. A cut of the link keeps
// nobody from it. The lab's network must be there.
func (l *Lab) ListenOnRouter(port uint16) (listener net.Listener, err error) {
	address := netip.AddrPortFrom(l.network.Router(host.SiteIDC), port)
	err = host.OnRouter(l.network, func() error {
		listener, err = net.Listen("tcp", address.String())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen on the lab's router (is the lab up?): %w", err)
	}
	return listener, nil
}

// RouterCertificate is a certificate of the lab's authority for what ListenOnRouter listens at, and the authority's own, as PEM.
func (l *Lab) RouterCertificate() (serving tls.Certificate, authority []byte, err error) {
	return hostcluster.ServingCertificate(l.state, "router", l.network.Router(host.SiteIDC))
}
