package tenantapi

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// gated is a Gate that serves, and a management cluster.
type gated struct {
	*Gate
	t          *testing.T
	management client.Client
}

func serveGate(t *testing.T) *gated {
	t.Helper()
	return serveGateBy(t, clock.RealClock{})
}

func serveGateBy(t *testing.T, by clock.PassiveClock, kinds ...Kind) *gated {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	gate, err := NewGate(ctx, &Guards{Clock: by}, kinds...)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- gate.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return &gated{Gate: gate, t: t, management: fake.NewClientBuilder().Build()}
}

// names writes the kubeconfig of the tenant, and returns what ClusterCache makes of it.
func (g *gated) names(server *httptest.Server, cluster, user string) (*rest.Config, error) {
	g.t.Helper()
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: blue.Namespace, Name: blue.Name + "-kubeconfig"}}
	if err := client.IgnoreNotFound(g.management.Delete(g.t.Context(), secret.DeepCopy())); err != nil {
		g.t.Fatal(err)
	}
	secret.Data = map[string][]byte{"value": []byte(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "` + server.URL + `/base", certificate-authority-data: ` + ca + cluster + `}}], users: [{name: u, user: {` + user + `}}]}`)}
	if err := g.management.Create(g.t.Context(), secret); err != nil {
		g.t.Fatal(err)
	}
	content, err := kubeconfig.FromSecret(g.t.Context(), g.Reader(g.management), blue)
	if err != nil {
		return nil, err
	}
	if strings.Contains(string(content), "hidden") {
		g.t.Errorf("the credentials are handed out: %s", content)
	}
	return clientcmd.RESTConfigFromKubeConfig(content)
}

func (g *gated) connect(server *httptest.Server) *rest.Config {
	g.t.Helper()
	config, err := g.names(server, "", "token: hidden-token")
	if err != nil {
		g.t.Fatal(err)
	}
	return config
}

// tenant starts the API server of a tenant.
func tenant(t *testing.T, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(answer)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// node is the name of the Node that a tenant answers with.
func node(config *rest.Config) (string, error) {
	asking, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	found, err := asking.CoreV1().Nodes().Get(context.Background(), "worker", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return found.Name, nil
}

func TestTheGateLeadsToTheTenantWithItsCredentials(t *testing.T) {
	g := serveGate(t)
	config := g.connect(tenant(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/base/api/v1/nodes/worker" || r.Header.Get("Authorization") != "Bearer hidden-token" || r.Header.Get("Accept-Encoding") != "" || r.Header.Get("Proxy-Authorization") != "" {
			http.Error(w, "what came is not what was sent", http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker"}}`))
	}))
	if got, err := node(config); got != "worker" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if problem := g.Problem(blue); problem != "" {
		t.Errorf("the problem is %q", problem)
	}
}

func TestTheGatePassesEventsOnAtOnce(t *testing.T) {
	g := serveGate(t)
	config := g.connect(tenant(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"type": "ADDED", "object": {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker"}}}`))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	asking, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	events, err := asking.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	if got, ok := (<-events.ResultChan()).Object.(*corev1.Node); !ok || got.Name != "worker" {
		t.Errorf("got %v", got)
	}
}

func TestFinding6NobodyIsLedThroughTheGateToAnotherServer(t *testing.T) {
	asked := atomic.Int32{}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(elsewhere.Close)
	elsewhereTLS := tenant(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	g := serveGate(t)
	config := g.connect(tenant(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	if _, err := node(config); err == nil || !strings.Contains(err.Error(), "redirect") || strings.Contains(err.Error(), elsewhere.URL) {
		t.Errorf("by a redirect: %v", err)
	}
	if problem := g.Problem(blue); !strings.Contains(problem, "redirect") {
		t.Errorf("the problem is %q", problem)
	}
	made, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{elsewhere.URL, elsewhereTLS.URL} {
		response, err := made.Get(address)
		if err == nil {
			_ = response.Body.Close()
		}
		if err == nil && response.StatusCode != http.StatusForbidden {
			t.Errorf("to %s: status %d", address, response.StatusCode)
		}
	}
	if asked.Load() != 0 {
		t.Errorf("other servers were asked %d times", asked.Load())
	}
}

func TestFinding3NothingIsUnpackedOnItsWayThroughTheGate(t *testing.T) {
	packed := bomb(t)
	g := serveGate(t)
	config := g.connect(tenant(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed)
	}))
	if _, err := node(config); err == nil || !strings.Contains(err.Error(), "its answer is compressed") {
		t.Errorf("got %v", err)
	}
	if problem := g.Problem(blue); !strings.Contains(problem, "its answer is compressed") {
		t.Errorf("the problem is %q", problem)
	}
}

func TestNobodyPassesTheGateWithoutAConnection(t *testing.T) {
	asked := atomic.Int32{}
	g := serveGate(t)
	server := tenant(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	former := g.connect(server)
	if _, err := g.names(server, "", "token: hidden-token-2"); err != nil {
		t.Fatal(err)
	}
	if _, err := node(former); !apierrors.IsUnauthorized(err) {
		t.Errorf("by the connection of another kubeconfig: %v", err)
	}
	proxy := &url.URL{Scheme: "http", User: url.User("guess"), Host: g.listener.Addr().String()}
	stranger := &rest.Config{Host: former.Host, Proxy: http.ProxyURL(proxy)}
	if _, err := node(stranger); !apierrors.IsUnauthorized(err) {
		t.Errorf("by a guess: %v", err)
	}
	if asked.Load() != 0 {
		t.Errorf("the tenant was asked %d times", asked.Load())
	}
}

func TestFinding1AKubeconfigThatReachesBeyondItsTenantIsRefused(t *testing.T) {
	for name, test := range map[string]struct{ cluster, user, says string }{
		"by the file of a token":       {"", "tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token", "tokenFile is refused"},
		"by the file of a key":         {"", "client-certificate-data: aGlkZGVu, client-key: /key", "client-key is refused"},
		"by a program":                 {"", "exec: {apiVersion: client.authentication.k8s.io/v1, command: id, interactiveMode: Never}", "exec is refused"},
		"by an auth provider":          {"", "auth-provider: {name: oidc}", "auth-provider is refused"},
		"by a proxy of its own":        {", proxy-url: 'http://proxy.example'", "token: hidden", "proxy-url is refused"},
		"to whoever answers":           {", insecure-skip-tls-verify: true", "token: hidden", "insecure-skip-tls-verify is refused"},
		"by the file of an authority":  {", certificate-authority: /ca", "token: hidden", "certificate-authority is refused"},
		"that cannot be read":          {"", "token: [", "cannot be read"},
		"by a key that belongs to all": {"", "client-certificate-data: aGlkZGVu, client-key-data: aGlkZGVu", "must be PEM"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := atomic.Int32{}
			g := serveGate(t)
			server := tenant(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
			former := g.connect(server)
			_, err := g.names(server, test.cluster, test.user)
			if err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "team/blue-kubeconfig") {
				t.Errorf("got %v", err)
			}
			if problem := g.Problem(blue); !strings.Contains(problem, test.says) {
				t.Errorf("the problem is %q", problem)
			}
			if _, err := node(former); !apierrors.IsUnauthorized(err) || asked.Load() != 0 {
				t.Errorf("the connection before it: %v", err)
			}
		})
	}
}

func TestOtherSecretsAreReadAsTheyAre(t *testing.T) {
	g := serveGate(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "blue-ca"}, Data: map[string][]byte{"value": []byte("a")}}
	if err := g.management.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	read := &corev1.Secret{}
	if err := g.Reader(g.management).Get(t.Context(), client.ObjectKeyFromObject(secret), read); err != nil || string(read.Data["value"]) != "a" {
		t.Errorf("got %v, %v", read.Data, err)
	}
}

func TestAConnectionThatNobodyUsesIsForgotten(t *testing.T) {
	by := clocktesting.NewFakePassiveClock(time.Now())
	g := serveGateBy(t, by)
	server := tenant(t, func(http.ResponseWriter, *http.Request) {})
	g.connect(server)
	by.SetTime(by.Now().Add(kept))
	red := client.ObjectKey{Namespace: "team", Name: "red"}
	if _, err := g.Gate.connect(red, [32]byte{}, &rest.Config{Host: server.URL}); err != nil {
		t.Fatal(err)
	}
	if g.connections[red] == nil || len(g.connections) != 1 || len(g.byName) != 1 {
		t.Errorf("there are %v", g.connections)
	}
}

func TestAConnectionEndsWithItsSecret(t *testing.T) {
	g := serveGate(t)
	former := g.connect(tenant(t, func(http.ResponseWriter, *http.Request) {}))
	if err := g.management.DeleteAllOf(t.Context(), &corev1.Secret{}, client.InNamespace("team")); err != nil {
		t.Fatal(err)
	}
	if _, err := kubeconfig.FromSecret(t.Context(), g.Reader(g.management), blue); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
	if _, err := node(former); !apierrors.IsUnauthorized(err) {
		t.Errorf("the connection: %v", err)
	}
}
