package untrusted

import (
	"net/http"
	"strconv"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Around is the transport that another one wraps. Who embeds it lets client-go reach the transport that is wrapped.
type Around struct{ Inner http.RoundTripper }

// WrappedRoundTripper lets client-go find the transport that is wrapped.
func (a Around) WrappedRoundTripper() http.RoundTripper { return a.Inner }

// CloseIdleConnections lets http.Client.CloseIdleConnections reach the transport that is wrapped.
func (a Around) CloseIdleConnections() { utilnet.CloseIdleConnectionsFor(a.Inner) }

// IsWatch reports whether a request asks for a watch, whose answer has no end.
func IsWatch(request *http.Request) bool {
	watch, err := strconv.ParseBool(request.URL.Query().Get("watch"))
	return err == nil && watch
}
