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
	address := netip.AddrPortFrom(l.RouterAddress(), port)
	err = host.OnRouter(l.network, func() error {
		listener, err = net.Listen("tcp", address.String())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen on the lab's router (is the lab up?): %w", err)
	}
	return listener, nil
}

// RouterAddress is the address that ListenOnRouter listens at.
func (l *Lab) RouterAddress() netip.Addr { return l.network.Router(host.SiteIDC) }

// RouterCertificate is a certificate of the lab's authority for what ListenOnRouter listens at, also under some names, and the
// authority's own, as PEM.
func (l *Lab) RouterCertificate(names ...string) (serving tls.Certificate, authority []byte, err error) {
	file := "router"
	if len(names) > 0 {
		file += "-as-others"
	}
	return hostcluster.ServingCertificate(l.state, file, l.RouterAddress(), names...)
}
