package hostclusters

import (
	"compress/gzip"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/untrusted"
)

// redirecting starts two servers: what the first is asked for it says is at the second, which counts who comes.
func redirecting(t *testing.T, started func(http.Handler) *httptest.Server) (first string, asked *atomic.Int32) {
	t.Helper()
	asked = &atomic.Int32{}
	elsewhere := started(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(elsewhere.Close)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

func TestARedirectOfAHostClusterIsNotFollowed(t *testing.T) {
	for to, started := range map[string]func(http.Handler) *httptest.Server{
		"to https": httptest.NewTLSServer,
		"to http":  httptest.NewServer,
	} {
		first, asked := redirecting(t, started)
		config := &rest.Config{Host: first, BearerToken: "hidden-token", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
		t.Run(to+", by a client", func(t *testing.T) {
			made, err := httpClientFor(Options{}.transport(t.Context(), config))
			if err != nil {
				t.Fatal(err)
			}
			answer, err := made.Get(first)
			if err == nil {
				_ = answer.Body.Close()
			}
			var redirect *untrusted.RedirectError
			if !errors.As(err, &redirect) || asked.Load() != 0 {
				t.Errorf("it got the error %v, and the other server was asked %d times", err, asked.Load())
			}
		})
		t.Run(to+", when it is connected to", func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := corev1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			o := Options{Scheme: scheme, Kinds: map[client.Object]cache.ByObject{&corev1.Secret{}: {}}, PortNamespace: "ports"}
			_, _, err := o.open(t.Context(), opening{
				namespace: "team", config: config, changed: func(context.Context, client.Object) {},
			})
			if err == nil || asked.Load() != 0 {
				t.Errorf("got the error %v, and the other server was asked %d times", err, asked.Load())
			}
		})
		t.Run(to+", on the way to a pod", func(t *testing.T) {
			_, err := forwarder{config: config, life: t.Context()}.dial(t.Context(), member, 2379)
			if err == nil || asked.Load() != 0 {
				t.Errorf("got the error %v, and the other server was asked %d times", err, asked.Load())
			}
		})
	}
}

func TestAHostClusterDoesNotFillTheMemory(t *testing.T) {
	for name, test := range map[string]struct {
		answers http.HandlerFunc
		says    string
	}{
		"by a large answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", strconv.Itoa(1<<40))
			_, _ = w.Write([]byte("{"))
		}, "more than 64 MiB"},
		"by a compressed answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")
			packed := gzip.NewWriter(w)
			_, _ = packed.Write([]byte("{}"))
			_ = packed.Close()
		}, "compresses its answer"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewTLSServer(test.answers)
			t.Cleanup(server.Close)
			scheme := runtime.NewScheme()
			if err := corev1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			o := Options{Scheme: scheme, Kinds: map[client.Object]cache.ByObject{&corev1.Secret{}: {}}, PortNamespace: "ports"}
			_, _, err := o.open(t.Context(), opening{
				namespace: "team", changed: func(context.Context, client.Object) {},
				config: &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}},
			})
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want %q", err, test.says)
			}
		})
	}
}

func TestAHostClusterWakesControlPlanesOfItsNamespaceAlone(t *testing.T) {
	var woken []string
	tell := within("team", func(_ context.Context, object client.Object) { woken = append(woken, object.GetName()) })
	for name, cluster := range map[string]client.ObjectKey{"ours": {Namespace: "team", Name: "blue"}, "another's": {Namespace: "other", Name: "blue"}} {
		tell(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: names.Labels(cluster)}})
	}
	tell(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "nobody's"}})
	if !slices.Equal(woken, []string{"ours"}) {
		t.Errorf("it tells of %q", woken)
	}
}
