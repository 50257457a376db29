package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Network is the lab's network: a router in a network namespace of its own with a bridge per site, and a link to the
// machine's root namespace. There is no default route anywhere: nothing leaves the machine.
type Network struct {
	// Prefix starts the name of every namespace and link.
	Prefix string
	// Cloud and IDC are the sites; the router has the first address of each.
	Cloud, IDC netip.Prefix
	// Uplink joins the machine (second address) to the router (first address).
	Uplink netip.Prefix
	// Pods and Services are the host cluster's; Services are reached over the first cloud host.
	Pods, Services netip.Prefix
}

// DefaultNetwork is the lab's network.
func DefaultNetwork() Network {
	return Network{
		Prefix:   "kok",
		Cloud:    netip.MustParsePrefix("10.210.0.0/24"),
		IDC:      netip.MustParsePrefix("10.220.0.0/24"),
		Uplink:   netip.MustParsePrefix("10.230.0.0/30"),
		Pods:     netip.MustParsePrefix("10.240.0.0/16"),
		Services: netip.MustParsePrefix("10.250.0.0/16"),
	}
}

// name gives the name of a namespace or link.
func (n Network) name(what string) string { return n.Prefix + "-" + what }

func (n Network) router() string { return n.name("router") }

func (n Network) site(site string) netip.Prefix {
	if site == SiteCloud {
		return n.Cloud
	}
	return n.IDC
}

// ranges of the network, each with the next hop that the router uses; invalid for what is directly attached.
func (n Network) ranges() []netip.Prefix {
	return []netip.Prefix{n.Cloud, n.IDC, n.Uplink, n.Pods, n.Services}
}

// EnsureNetwork makes the router, the sites and the machine's link to them; what is there already stays. It fails
// before it changes anything when the machine routes one of the ranges elsewhere.
func EnsureNetwork(ctx context.Context, n Network) error {
	root, err := netlink.NewHandle()
	if err != nil {
		return err
	}
	defer root.Close()
	if err := n.checkRanges(root); err != nil {
		return err
	}
	if err := ensureNamespace(n.router()); err != nil {
		return err
	}
	router, closeRouter, err := handleIn(n.router())
	if err != nil {
		return err
	}
	defer closeRouter()
	if err := setNetworkParameters(n.router(), routerParameters); err != nil {
		return err
	}
	if err := up(router, "lo"); err != nil {
		return err
	}
	for _, site := range []string{SiteCloud, SiteIDC} {
		if err := ctx.Err(); err != nil {
			return err
		}
		attributes := netlink.NewLinkAttrs()
		attributes.Name = n.name(site)
		if err := router.LinkAdd(&netlink.Bridge{LinkAttrs: attributes}); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("add bridge %s: %w", attributes.Name, err)
		}
		if err := address(router, attributes.Name, n.site(site).Addr().Next(), n.site(site).Bits()); err != nil {
			return err
		}
	}
	if err := n.joinMachine(root, router); err != nil {
		return err
	}
	return route(router, n.Services, hostAddress(n.Cloud, 1), 0)
}

// joinMachine links the root namespace to the router and routes every range of the lab over it.
func (n Network) joinMachine(root, router *netlink.Handle) error {
	ours, theirs := n.name("lab"), n.name("root")
	if _, err := root.LinkByName(ours); isMissing(err) {
		namespace, err := netns.GetFromName(n.router())
		if err != nil {
			return err
		}
		defer namespace.Close() //nolint:errcheck // only a descriptor
		attributes := netlink.NewLinkAttrs()
		attributes.Name = ours
		veth := &netlink.Veth{LinkAttrs: attributes, PeerName: theirs, PeerNamespace: netlink.NsFd(namespace)}
		if err := root.LinkAdd(veth); err != nil {
			return fmt.Errorf("add link %s: %w", ours, err)
		}
	} else if err != nil {
		return err
	}
	first := n.Uplink.Addr().Next()
	if err := address(router, theirs, first, n.Uplink.Bits()); err != nil {
		return err
	}
	if err := address(root, ours, first.Next(), n.Uplink.Bits()); err != nil {
		return err
	}
	for _, prefix := range n.ranges() {
		if prefix == n.Uplink {
			continue
		}
		if err := route(root, prefix, first, 0); err != nil {
			return err
		}
	}
	return nil
}

// checkRanges refuses ranges that the machine already uses for something else.
func (n Network) checkRanges(root *netlink.Handle) error {
	routes, err := root.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return fmt.Errorf("list the machine's routes: %w", err)
	}
	ours := -1
	if link, err := root.LinkByName(n.name("lab")); err == nil {
		ours = link.Attrs().Index
	}
	for _, r := range routes {
		if r.Dst == nil || r.LinkIndex == ours {
			continue
		}
		ones, _ := r.Dst.Mask.Size()
		at, ok := netip.AddrFromSlice(r.Dst.IP.To4())
		if !ok || ones == 0 {
			continue
		}
		used := netip.PrefixFrom(at, ones)
		for _, want := range n.ranges() {
			if want.Overlaps(used) {
				return fmt.Errorf("the lab needs the address range %s, but this machine already routes %s (%s): remove that route, or run the lab on another machine", want, used, r.String())
			}
		}
	}
	return nil
}

// RemoveNetwork removes the router and the machine's link to it; the hosts' own namespaces go with their hosts.
func RemoveNetwork(n Network) error {
	root, err := netlink.NewHandle()
	if err != nil {
		return err
	}
	defer root.Close()
	var errs []error
	if link, err := root.LinkByName(n.name("lab")); err == nil {
		errs = append(errs, root.LinkDel(link))
	}
	errs = append(errs, removeNamespace(n.router()))
	return errors.Join(errs...)
}

// routerParameters: forwarding, and no help from the kernel that would blur a cut.
var routerParameters = map[string]string{
	"ipv4/ip_forward":                  "1",
	"ipv4/conf/all/rp_filter":          "0",
	"ipv4/conf/default/rp_filter":      "0",
	"ipv4/conf/all/send_redirects":     "0",
	"ipv4/conf/default/send_redirects": "0",
	"ipv6/conf/all/disable_ipv6":       "1",
	"ipv6/conf/default/disable_ipv6":   "1",
	"bridge/bridge-nf-call-iptables":   "0",
	"bridge/bridge-nf-call-ip6tables":  "0",
}

// handleIn gives a netlink handle in a named namespace.
func handleIn(name string) (*netlink.Handle, func(), error) {
	namespace, err := netns.GetFromName(name)
	if err != nil {
		return nil, nil, fmt.Errorf("network namespace %s: %w", name, err)
	}
	defer namespace.Close() //nolint:errcheck // only a descriptor
	handle, err := netlink.NewHandleAt(namespace)
	if err != nil {
		return nil, nil, fmt.Errorf("netlink in namespace %s: %w", name, err)
	}
	return handle, handle.Close, nil
}

// address sets the one address of a link and brings it up.
func address(handle *netlink.Handle, name string, ip netip.Addr, bits int) error {
	link, err := handle.LinkByName(name)
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	ipNet := &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(bits, 32)}
	if err := handle.AddrReplace(link, &netlink.Addr{IPNet: ipNet}); err != nil {
		return fmt.Errorf("set address %s on %s: %w", ipNet, name, err)
	}
	return up(handle, name)
}

func up(handle *netlink.Handle, name string) error {
	link, err := handle.LinkByName(name)
	if err == nil {
		err = handle.LinkSetUp(link)
	}
	if err != nil {
		return fmt.Errorf("bring up %s: %w", name, err)
	}
	return nil
}

// route sends a range to a next hop, or to a link when there is none.
func route(handle *netlink.Handle, to netip.Prefix, via netip.Addr, link int) error {
	r := &netlink.Route{
		Dst:       &net.IPNet{IP: to.Addr().AsSlice(), Mask: net.CIDRMask(to.Bits(), 32)},
		LinkIndex: link,
	}
	if via.IsValid() {
		r.Gw = via.AsSlice()
	} else {
		r.Scope = netlink.SCOPE_LINK
	}
	if err := handle.RouteReplace(r); err != nil {
		return fmt.Errorf("route %s: %w", r, err)
	}
	return nil
}

func isMissing(err error) bool {
	var missing netlink.LinkNotFoundError
	return errors.As(err, &missing)
}
