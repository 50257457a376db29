package discovery

import (
	"math"
	"net"
	"net/netip"
	"strconv"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// portName is what kube-apiserver calls its port in the EndpointSlice.
const portName = "https"

// mostServers is how many API servers are used. A tenant's administrator can write the list, and each entry costs memory and
// probes.
const mostServers = 64

// Addresses are the API servers that an EndpointSlice lists, as host:port, up to mostServers. Endpoints that are not ready,
// or have no IP address, are left out.
func Addresses(slice *discoveryv1.EndpointSlice) []string {
	port := port(slice.Ports)
	if port == "" || slice.AddressType == discoveryv1.AddressTypeFQDN {
		return nil
	}
	var addresses []string
	for _, endpoint := range slice.Endpoints {
		if endpoint.Conditions.Ready != nil && !*endpoint.Conditions.Ready {
			continue
		}
		for _, address := range endpoint.Addresses {
			if ip, err := netip.ParseAddr(address); err != nil || ip.Zone() != "" || len(addresses) == mostServers {
				continue
			}
			addresses = append(addresses, net.JoinHostPort(address, port))
		}
	}
	return addresses
}

func port(ports []discoveryv1.EndpointPort) string {
	for _, port := range ports {
		if port.Port != nil && *port.Port > 0 && *port.Port <= math.MaxUint16 && (len(ports) == 1 || port.Name != nil && *port.Name == portName) {
			return strconv.Itoa(int(*port.Port))
		}
	}
	return ""
}
