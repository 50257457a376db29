package isolation

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Prefix is the network of hosts (RFC 5737): kube-apiserver takes no loopback address for its own. An address of it
// that nobody has swallows what is sent to it, as that of a host without power does.
var Prefix = netip.MustParsePrefix("192.0.2.0/24")

// settings make room for many short connections.
var settings = map[string]string{
	"/proc/sys/net/ipv4/ip_local_port_range": "10240 60999",
	"/proc/sys/net/ipv4/tcp_tw_reuse":        "1",
	"/proc/sys/net/core/somaxconn":           "4096",
}

func prepareNetwork() error {
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(loopback); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name = "nowhere"
	nowhere := &netlink.Bridge{LinkAttrs: attributes}
	if err := netlink.LinkAdd(nowhere); err != nil {
		return fmt.Errorf("make a network without hosts: %w", err)
	}
	// Who is asked for there is not looked for: the kernel would tell that nobody answers.
	if err := netlink.LinkSetARPOff(nowhere); err != nil {
		return fmt.Errorf("switch ARP off on %s: %w", attributes.Name, err)
	}
	if err := netlink.LinkSetUp(nowhere); err != nil {
		return fmt.Errorf("set %s up: %w", attributes.Name, err)
	}
	route := &netlink.Route{LinkIndex: nowhere.Index, Scope: netlink.SCOPE_LINK, Dst: &net.IPNet{
		IP: Prefix.Addr().AsSlice(), Mask: net.CIDRMask(Prefix.Bits(), Prefix.Addr().BitLen()),
	}}
	if err := netlink.RouteAdd(route); err != nil {
		return fmt.Errorf("route %s to %s: %w", Prefix, attributes.Name, err)
	}
	for file, value := range settings {
		if err := os.WriteFile(file, []byte(value), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// AddAddress gives this network namespace an address. It may have it already.
func AddAddress(address netip.Addr) error {
	err := changeAddress(netlink.AddrAdd, address)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add address %s: %w", address, err)
	}
	return nil
}

// RemoveAddress takes an address away: what is sent to it then is lost without an answer.
func RemoveAddress(address netip.Addr) error {
	if err := changeAddress(netlink.AddrDel, address); err != nil {
		return fmt.Errorf("remove address %s: %w", address, err)
	}
	return nil
}

func changeAddress(change func(netlink.Link, *netlink.Addr) error, address netip.Addr) error {
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return change(loopback, &netlink.Addr{IPNet: &net.IPNet{IP: address.AsSlice(), Mask: net.CIDRMask(address.BitLen(), address.BitLen())}})
}
