package discovery

import (
	"net"
	"strconv"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// portName is what kube-apiserver calls its port in the EndpointSlice.
const portName = "https"

// Addresses are the API servers that an EndpointSlice lists, as host:port. An endpoint is left out
// when it is said not to be ready.
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
			addresses = append(addresses, net.JoinHostPort(address, port))
		}
	}
	return addresses
}

func port(ports []discoveryv1.EndpointPort) string {
	for _, port := range ports {
		if port.Port != nil && (len(ports) == 1 || port.Name != nil && *port.Name == portName) {
			return strconv.Itoa(int(*port.Port))
		}
	}
	return ""
}
