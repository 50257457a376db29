// Package serviceaddress takes the address of the tenant's Service kubernetes on one machine, so that
// pods there reach the load balancer by it, and gives it back.
//
// kube-proxy sends connections to that address straight to one of the API servers, also to one that
// is dead, for as long as the EndpointSlice names it. As NodeLocal DNSCache does for DNS, the address
// is put on the loopback interface, and packets for the Service are excepted from connection
// tracking: translation of addresses, on which kube-proxy's iptables and nftables modes rest, happens
// to tracked packets only.
//
// The same rules write a port of this program's into packets for the Service, and the Service's into
// what is answered. So the Service's own port stays free on this machine, for programs that listen at
// all of its addresses, and kube-proxy's IPVS mode, which looks for the Service's port, finds nothing:
// that it has the address on an interface of its own does not matter. When the address is given back
// kube-proxy's rules apply again at once.
//
// Both steps may be repeated and undone at any time, also by a process that did not do them.
package serviceaddress
