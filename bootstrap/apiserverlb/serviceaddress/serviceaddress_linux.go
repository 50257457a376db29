package serviceaddress

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// loopback is the interface that gets the address.
const loopback = "lo"

// Listen listens at an address that this machine may not have yet.
func Listen(ctx context.Context, address netip.AddrPort) (*net.TCPListener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failure error
		err := raw.Control(func(descriptor uintptr) {
			if address.Addr().Is4() {
				failure = unix.SetsockoptInt(int(descriptor), unix.SOL_IP, unix.IP_FREEBIND, 1)
			} else {
				failure = unix.SetsockoptInt(int(descriptor), unix.SOL_IPV6, unix.IPV6_FREEBIND, 1)
			}
		})
		return errors.Join(err, failure)
	}}
	listener, err := config.Listen(ctx, "tcp", address.String())
	if err != nil {
		return nil, fmt.Errorf("listen at the Service's address: %w", err)
	}
	return listener.(*net.TCPListener), nil
}

// Take leads connections to the Service to a port of its address on this machine's loopback. Call it again to repair what
// others undid. When it fails, it leaves nothing behind.
func Take(service netip.AddrPort, port uint16) error {
	if err := take(service, port); err != nil {
		return errors.Join(err, GiveBack(service))
	}
	return nil
}

func take(service netip.AddrPort, port uint16) error {
	if err := setRules(service, port); err != nil {
		return fmt.Errorf("set rules for connections to %s: %w", service, err)
	}
	link, err := netlink.LinkByName(loopback)
	if err != nil {
		return fmt.Errorf("find the loopback interface: %w", err)
	}
	err = netlink.AddrAdd(link, onLoopback(service.Addr()))
	if err != nil && !errors.Is(err, syscall.EEXIST) {
		return fmt.Errorf("add %s to the loopback interface: %w", service.Addr(), err)
	}
	return nil
}

// GiveBack undoes Take. It does nothing when there is nothing to undo.
func GiveBack(service netip.AddrPort) error {
	link, err := netlink.LinkByName(loopback)
	if err != nil {
		return fmt.Errorf("find the loopback interface: %w", err)
	}
	var failures []error
	err = netlink.AddrDel(link, onLoopback(service.Addr()))
	if err != nil && !errors.Is(err, syscall.EADDRNOTAVAIL) {
		failures = append(failures, fmt.Errorf("remove %s from the loopback interface: %w", service.Addr(), err))
	}
	if err := removeRules(service); err != nil {
		failures = append(failures, fmt.Errorf("remove rules for connections to %s: %w", service, err))
	}
	return errors.Join(failures...)
}

// onLoopback is the address as the interface has it. Linux never chooses it as a source address, because only this machine
// knows it.
func onLoopback(address netip.Addr) *netlink.Addr {
	network := &net.IPNet{IP: address.AsSlice(), Mask: net.CIDRMask(address.BitLen(), address.BitLen())}
	if address.Is4() {
		return &netlink.Addr{IPNet: network, Scope: int(netlink.SCOPE_HOST)}
	}
	return &netlink.Addr{IPNet: network, Flags: unix.IFA_F_NODAD, ValidLft: math.MaxUint32, PreferedLft: 0}
}
