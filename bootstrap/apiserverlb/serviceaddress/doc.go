// Package serviceaddress takes the address of the tenant's Service kubernetes on one machine, so that
// pods there reach the load balancer by it, and gives it back.
//
// kube-proxy sends connections to that address straight to one of the API servers, also to one that
// is dead, for as long as the EndpointSlice names it. As NodeLocal DNSCache does for DNS, the address
// is put on the loopback interface, and packets to and from its port are excepted from connection
// tracking: translation of addresses, on which kube-proxy's iptables and nftables modes rest, happens
// to tracked packets only. kube-proxy's IPVS mode puts the address on an interface of its own; then
// it is not taken. When it is given back kube-proxy's rules apply again at once.
//
// Both steps may be repeated and undone at any time, also by a process that did not do them.
package serviceaddress
