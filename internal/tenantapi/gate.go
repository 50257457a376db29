package tenantapi

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Gate is a proxy on loopback to the API servers of tenants. It has the credentials. Its reader of Secrets refuses kubeconfigs
// that would read a file of the manager or run a program. A client must give the name of a connection, which cannot be
// guessed, and reaches only that tenant.
type Gate struct {
	listener net.Listener
	server   *http.Server
	guards   *Guards
	kinds    kinds

	lock sync.Mutex
	// connections has the connections by tenant, byName the same by their names.
	connections map[client.ObjectKey]*connection
	byName      map[string]*connection
	// problems say which kubeconfigs were refused, and why.
	problems map[client.ObjectKey]string
}

// connection is the way to the API server of one tenant.
type connection struct {
	name, host string
	// base is the path of the server's address.
	base      string
	content   [32]byte
	proxy     *httputil.ReverseProxy
	transport *http.Transport
	guard     *Guard
}

// NewGate listens on loopback until the context ends. It serves once it is started. Its clients find the given kinds in each tenant, and no
// others; without any, the kinds that each tenant has.
func NewGate(ctx context.Context, guards *Guards, all ...Kind) (*Gate, error) {
	answers, err := answersAbout(all)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for connections to tenants: %w", err)
	}
	g := &Gate{
		listener: listener, guards: guards, kinds: answers,
		connections: map[client.ObjectKey]*connection{}, byName: map[string]*connection{}, problems: map[client.ObjectKey]string{},
	}
	g.server = &http.Server{Handler: g, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	return g, nil
}

// Start serves until the context ends.
func (g *Gate) Start(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = g.server.Close() })
	defer stop()
	if err := g.server.Serve(g.listener); ctx.Err() == nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve connections to tenants: %w", err)
	}
	return nil
}

// NeedLeaderElection lets a manager start it before its controllers.
func (g *Gate) NeedLeaderElection() bool { return false }

// Guard returns the guard for a tenant.
func (g *Gate) Guard(tenant client.ObjectKey) *Guard { return g.guards.Of(tenant) }

// Problem says why there may be no connection to a tenant; empty when the Gate knows of nothing.
func (g *Gate) Problem(tenant client.ObjectKey) string {
	g.lock.Lock()
	problem := g.problems[tenant]
	g.lock.Unlock()
	if problem != "" {
		return problem
	}
	return g.guards.Of(tenant).Problem()
}

// connect returns the connection to a tenant with the configuration from a kubeconfig with this hash. It ends the connection
// of an earlier kubeconfig.
func (g *Gate) connect(tenant client.ObjectKey, content [32]byte, config *rest.Config) (*connection, error) {
	g.lock.Lock()
	defer g.lock.Unlock()
	delete(g.problems, tenant)
	known := g.connections[tenant]
	if known != nil && known.content == content {
		return known, nil
	}
	made, err := newConnection(g.guards.Of(tenant), config)
	if err != nil {
		return nil, err
	}
	made.content = content
	g.end(tenant)
	for other, known := range g.connections {
		if known.guard.idle() { // Its Cluster may be gone: nothing tells the Gate of deletions.
			g.end(other)
		}
	}
	g.connections[tenant], g.byName[made.name] = made, made
	return made, nil
}

// end forgets the connection to a tenant; the caller holds the lock.
func (g *Gate) end(tenant client.ObjectKey) {
	if known := g.connections[tenant]; known != nil {
		delete(g.connections, tenant)
		delete(g.byName, known.name)
		known.transport.CloseIdleConnections()
	}
}

func newConnection(guard *Guard, config *rest.Config) (*connection, error) {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("read the server's address: %w", err)
	}
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("use its certificates: %w", err)
	}
	transport := utilnet.SetTransportDefaults(&http.Transport{
		Proxy:                  config.Proxy,
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:        tlsConfig,
		TLSHandshakeTimeout:    10 * time.Second,
		IdleConnTimeout:        90 * time.Second,
		MaxIdleConnsPerHost:    4,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
	})
	withCredentials, err := rest.HTTPWrappersForConfig(config, transport)
	if err != nil {
		return nil, fmt.Errorf("use its credentials: %w", err)
	}
	return &connection{
		name: rand.Text(), host: server.Host, base: server.Path, transport: transport, guard: guard,
		proxy: &httputil.ReverseProxy{
			Rewrite: func(request *httputil.ProxyRequest) {
				request.Out.URL.Scheme, request.Out.URL.Host, request.Out.Host = server.Scheme, server.Host, server.Host
			},
			Transport:     guard.Wrap(withCredentials),
			FlushInterval: -1,
			ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, err error) { fail(w, http.StatusBadGateway, err.Error()) },
			ErrorLog:      log.New(io.Discard, "", 0), // Clients report the errors.
		},
	}, nil
}

// ServeHTTP passes a request on to the tenant of the connection that it names.
func (g *Gate) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	name := connectionOf(request)
	g.lock.Lock()
	known := g.byName[name]
	g.lock.Unlock()
	switch {
	case known == nil:
		// ClusterCache connects again, with the present kubeconfig.
		fail(w, http.StatusUnauthorized, "the connection to the tenant ended")
	case request.Method == http.MethodConnect || request.URL.Host != known.host:
		fail(w, http.StatusForbidden, "a connection to a tenant leads to its API server alone")
	case g.kinds.answer(w, request, known.base):
	default:
		known.proxy.ServeHTTP(w, request)
	}
}

// connectionOf is the name of a connection in a request: it is where requests have the user of a proxy.
func connectionOf(request *http.Request) string {
	named := &http.Request{Header: http.Header{"Authorization": request.Header["Proxy-Authorization"]}}
	name, _, _ := named.BasicAuth()
	return name
}

func fail(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Message: message, //nolint:gosec // It is an HTTP status.
		Reason: reasons[code],
	})
}

var reasons = map[int]metav1.StatusReason{
	http.StatusUnauthorized: metav1.StatusReasonUnauthorized,
	http.StatusForbidden:    metav1.StatusReasonForbidden,
	http.StatusNotFound:     metav1.StatusReasonNotFound,
	http.StatusBadGateway:   metav1.StatusReasonServiceUnavailable,
}

// address is the proxy's URL for clients of a connection.
func (g *Gate) address(known *connection) string {
	return (&url.URL{Scheme: "http", User: url.User(known.name), Host: g.listener.Addr().String()}).String()
}
