package hostclusters

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
