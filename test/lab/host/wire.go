package host

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// hostParameters of a host's network: it forwards for its pods, and bridged pods meet the Service rules.
var hostParameters = map[string]string{
	"ipv4/ip_forward":                  "1",
	"ipv4/conf/all/rp_filter":          "0",
	"ipv4/conf/default/rp_filter":      "0",
	"ipv4/conf/all/send_redirects":     "0",
	"ipv4/conf/default/send_redirects": "0",
	"bridge/bridge-nf-call-iptables":   "1",
	"bridge/bridge-nf-call-ip6tables":  "1",
}

// wire plugs the host into its site: a namespace of its own, eth0 with its address, and routes to the sites, the
// machine and the pods of other hosts over the router. Service addresses are routed to the link, only so that a local
// process can dial them: the host's own Service rules rewrite them.
func (h *Host) wire() error {
	if err := ensureNamespace(h.namespace()); err != nil {
		return err
	}
	namespace, err := netns.GetFromName(h.namespace())
	if err != nil {
		return err
	}
	defer namespace.Close() //nolint:errcheck // only a descriptor
	router, closeRouter, err := handleIn(h.network.router())
	if err != nil {
		return fmt.Errorf("the lab's router is missing: %w", err)
	}
	defer closeRouter()
	host, closeHost, err := handleIn(h.namespace())
	if err != nil {
		return err
	}
	defer closeHost()
	if err := setNetworkParameters(h.namespace(), hostParameters); err != nil {
		return err
	}
	if err := up(host, "lo"); err != nil {
		return err
	}
	if err := h.plug(router, netlink.NsFd(namespace)); err != nil {
		return err
	}
	site := h.network.site(h.Site)
	if err := address(host, "eth0", h.Address, site.Bits()); err != nil {
		return err
	}
	if err := h.routes(host, site); err != nil {
		return err
	}
	if h.Worker() {
		// As machines of a data centre have it; the router knows the lab's ranges alone.
		return route(host, netip.MustParsePrefix("0.0.0.0/0"), site.Addr().Next(), 0)
	}
	return route(router, h.PodCIDR, h.Address, 0)
}

// plug makes the link between eth0 and the site's bridge.
func (h *Host) plug(router *netlink.Handle, namespace netlink.NsFd) error {
	bridge, err := router.LinkByName(h.network.name(h.Site))
	if err != nil {
		return fmt.Errorf("bridge of site %s: %w", h.Site, err)
	}
	port := h.network.name(h.Name)
	if _, err := router.LinkByName(port); isMissing(err) {
		attributes := netlink.NewLinkAttrs()
		attributes.Name = port
		attributes.MasterIndex = bridge.Attrs().Index
		veth := &netlink.Veth{LinkAttrs: attributes, PeerName: "eth0", PeerNamespace: namespace, PeerHardwareAddr: h.hardwareAddress()}
		if err := router.LinkAdd(veth); err != nil {
			return fmt.Errorf("add link %s: %w", port, err)
		}
	} else if err != nil {
		return err
	}
	return up(router, port)
}

// hardwareAddress of eth0 stays the same over power cycles, as that of a real machine does: its peers know it at once.
func (h *Host) hardwareAddress() net.HardwareAddr {
	a := h.Address.As4()
	return net.HardwareAddr{0x02, 0x00, a[0], a[1], a[2], a[3]}
}

func (h *Host) routes(host *netlink.Handle, site netip.Prefix) error {
	eth0, err := host.LinkByName("eth0")
	if err != nil {
		return fmt.Errorf("eth0 of %s: %w", h.Name, err)
	}
	for _, to := range h.network.ranges() {
		var err error
		switch to {
		case site:
		case h.network.Services:
			err = route(host, to, netip.Addr{}, eth0.Attrs().Index)
		default:
			err = route(host, to, site.Addr().Next(), 0)
		}
		if err != nil {
			return fmt.Errorf("host %s: %w", h.Name, err)
		}
	}
	return nil
}

// unplug takes the host off its site at once, as a power failure does: its peers hear nothing more from it.
func (h *Host) unplug() error {
	router, closeRouter, err := handleIn(h.network.router())
	if err != nil {
		return nil // no router: nobody can hear the host
	}
	defer closeRouter()
	link, err := router.LinkByName(h.network.name(h.Name))
	if isMissing(err) {
		return nil
	}
	if err == nil {
		err = router.LinkSetDown(link)
	}
	if err != nil {
		return fmt.Errorf("unplug %s: %w", h.Name, err)
	}
	return nil
}

// unwire removes the host's namespace with all that was made in it.
func (h *Host) unwire() error {
	var errs []error
	if router, closeRouter, err := handleIn(h.network.router()); err == nil {
		defer closeRouter()
		if link, err := router.LinkByName(h.network.name(h.Name)); err == nil {
			errs = append(errs, router.LinkDel(link))
		}
	}
	errs = append(errs, removeNamespace(h.namespace()))
	return errors.Join(errs...)
}
