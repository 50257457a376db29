// Package serviceaddress takes the address of the tenant's Service kubernetes on one machine, so that
// pods there reach the load balancer by it, and gives it back.
//
// The address is put on the loopback interface, and packets for the Service are excepted from
// connection tracking, because kube-proxy's iptables and nftables modes translate only tracked
// packets. Why:
// docs/decisions/network.md#the-load-balancer-takes-the-address-of-the-service-kubernetes.
//
// The same rules write this program's port into packets for the Service, and the Service's port into
// answers. When the address is given back, kube-proxy's rules apply again at once.
//
// Both steps may be repeated and undone at any time, also by a process that did not do them.
package serviceaddress
