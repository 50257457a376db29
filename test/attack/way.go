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
	// Redirects is true for a way by a server of the attacker that redirects: nobody follows to any address, so that its
	// control is that the server was asked.
	Redirects bool
	Take      func(ctx context.Context, a *Attacker, to netip.AddrPort) (answer string, err error)
}

// Ways are all of them.
func Ways() []Way {
	return []Way{
		{"node proxy, HTTP", "forges a Node with that InternalIP and asks its proxy", false, nodeProxy("http")},
		{"node proxy, HTTPS", "the same by TLS", false, nodeProxy("https")},
		{"logs at a forged node", "forges a Node with kubelet at that port, and asks for logs of a pod there", false, kubeletLogs},
		{"exec at a forged node", "the same, and asks for a shell", false, kubeletExec},
		{"kubelet that redirects", "a server with the worker's kubelet certificate redirects the API server that asks for logs", true, kubeletRedirect},
		{"service proxy", "makes a Service, Endpoints with that address and a pod that has it, and asks the Service's proxy", false, serviceProxy("http")},
		{"service proxy, HTTPS", "the same by TLS", false, serviceProxy("https")},
		{"pod proxy", "forges the status of a pod with that address, and asks its proxy", false, podProxy},
		{"webhook by URL", "an admission webhook with a URL", false, webhookByURL},
		{"webhook by ExternalName", "an admission webhook with a Service of type ExternalName", false, webhookByExternalName},
		{"webhook that redirects", "an admission webhook on the worker answers with a redirect", true, webhookRedirect},
		{"conversion webhook by URL", "a conversion webhook of a CRD with a URL", false, conversionByURL},
		{"aggregated API by ExternalName", "an APIService with a Service of type ExternalName", false, aggregatedByExternalName},
		{"aggregated API that redirects", "an aggregated API on the worker answers with a redirect", true, aggregatedRedirect},
	}
}
