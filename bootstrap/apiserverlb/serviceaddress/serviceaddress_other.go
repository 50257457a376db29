//go:build !linux

package serviceaddress

import (
	"context"
	"errors"
	"net"
	"net/netip"
)

var errOnlyLinux = errors.New("the address of the Service kubernetes can be taken on Linux only: remove serviceAddress from the configuration")

// Listen fails: only Linux can do this.
func Listen(context.Context, netip.AddrPort) (*net.TCPListener, error) { return nil, errOnlyLinux }

// Take fails: only Linux can do this.
func Take(netip.AddrPort, uint16) error { return errOnlyLinux }

// GiveBack fails: only Linux can do this.
func GiveBack(netip.AddrPort) error { return errOnlyLinux }
