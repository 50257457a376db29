package host

import "net/netip"

// Addresses of the data centre for load balancers of the host cluster, by their last number.
const (
	firstBalanced = 240
	lastBalanced  = 250
)

// Balanced gives the first and the last address in the data centre that load balancers of the host cluster may give to
// Services: no host ever has one of them.
func (n Network) Balanced() (first, last netip.Addr) {
	a := n.IDC.Addr().As4()
	a[3] = firstBalanced
	first = netip.AddrFrom4(a)
	a[3] = lastBalanced
	return first, netip.AddrFrom4(a)
}
