package attack

import (
	"context"
	"net/netip"
)

// Way is a way by which the attacker has somebody else connect to an address.
type Way struct {
	Name string
	// Did says what the attacker does, in a line.
	Did string
	// Needs is what the address must be; nil for any.
	Take func(ctx context.Context, a *Attacker, to netip.AddrPort) (answer string, err error)
}

// Ways are all of them.
func Ways() []Way {
	return []Way{
		{"node proxy, HTTP", "forges a Node with that InternalIP and asks its proxy", nodeProxy("http")},
		{"node proxy, HTTPS", "the same by TLS", nodeProxy("https")},
		{"logs at a forged node", "forges a Node with kubelet at that port, and asks for logs of a pod there", kubeletLogs},
		{"exec at a forged node", "the same, and asks for a shell", kubeletExec},
		{"kubelet that redirects", "a server with the worker's kubelet certificate redirects the API server that asks for logs", kubeletRedirect},
		{"service proxy", "makes a Service and an EndpointSlice with that address, and asks its proxy", serviceProxy("http")},
		{"service proxy, HTTPS", "the same by TLS", serviceProxy("https")},
		{"service proxy, Endpoints", "the same with an Endpoints object", endpointsProxy},
		{"pod proxy", "forges the status of a pod with that address, and asks its proxy", podProxy},
		{"webhook by URL", "an admission webhook with a URL", webhookByURL},
		{"webhook by ExternalName", "an admission webhook with a Service of type ExternalName", webhookByExternalName},
		{"webhook that redirects", "an admission webhook on the worker answers with a redirect", webhookRedirect},
		{"conversion webhook by URL", "a conversion webhook of a CRD with a URL", conversionByURL},
		{"aggregated API by ExternalName", "an APIService with a Service of type ExternalName", aggregatedByExternalName},
		{"aggregated API that redirects", "an aggregated API on the worker answers with a redirect", aggregatedRedirect},
	}
}
