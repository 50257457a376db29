package load

import (
	"fmt"
	"net/http"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// Fresh is a copy of a configuration with a new connection for every request.
func Fresh(config *rest.Config) (*rest.Config, error) {
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client with new connections for %s: %w", config.Host, err)
	}
	proxy := config.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	fresh := rest.CopyConfig(config)
	// client-go refuses it beside a transport, which has it.
	fresh.TLSClientConfig = rest.TLSClientConfig{}
	fresh.Transport = utilnet.SetTransportDefaults(&http.Transport{
		Proxy: proxy, DialContext: config.Dial, TLSClientConfig: tlsConfig, DisableKeepAlives: true,
	})
	return fresh, nil
}
