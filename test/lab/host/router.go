package host

import "net/netip"

// Router is the address that hosts of a site, and this machine, reach the router at.
func (n Network) Router(site string) netip.Addr { return n.site(site).Addr().Next() }

// OnRouter runs f on a thread that stands in the router's network: a socket that f itself opens listens there.
func OnRouter(n Network, f func() error) error { return inNamespace(n.router(), f) }
