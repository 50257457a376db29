package servingcertificates

import (
	"crypto/x509"
	"net"
	"slices"
	"strings"
)

// others are the names and addresses in a request that no node may have: those of loopback, which mean another program on
// each machine, those of Services, and the control plane's endpoint.
func (c Cluster) others(certificate *x509.CertificateRequest) []string {
	var others []string
	for _, name := range certificate.DNSNames {
		if what := c.otherName(name); what != "" {
			others = append(others, "name "+name+", "+what)
		}
	}
	for _, address := range certificate.IPAddresses {
		if what := c.otherAddress(address); what != "" {
			others = append(others, "address "+address.String()+", "+what)
		}
	}
	return others
}

func (c Cluster) otherName(name string) string {
	// A name may end in a dot, which stands for the root of DNS.
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	switch {
	case slices.Contains([]string{"kubernetes", "kubernetes.default", "kubernetes.default.svc"}, name):
		return "the API server's"
	case strings.HasSuffix(name, ".svc") || strings.HasSuffix(name, ".svc."+strings.ToLower(c.DNSDomain)):
		return "a Service's"
	case name == "localhost" || strings.HasSuffix(name, ".localhost"):
		return "every machine's"
	case strings.EqualFold(name, c.Endpoint):
		return "the control plane's endpoint"
	}
	return ""
}

func (c Cluster) otherAddress(address net.IP) string {
	switch {
	case !address.IsGlobalUnicast():
		return "which is not one machine's alone"
	case slices.ContainsFunc(c.ServiceCIDRs, func(network *net.IPNet) bool { return network.Contains(address) }):
		return "a Service's"
	case sameIP(c.Endpoint, address):
		return "the control plane's endpoint"
	}
	return ""
}
