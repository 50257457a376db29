package controllers

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/tenantapi"
)

// hostileVisit is a visit to a tenant whose administrator has put a server of their own at its address.
func hostileVisit(t *testing.T, answer http.HandlerFunc) *tenantVisit {
	t.Helper()
	of := issue(t, "blue", "blue.example.com")
	return &tenantVisit{
		r: &Reconciler{Clock: clock.RealClock{}}, keys: of.keys, address: serveAsTenant(t, of, answer),
		guard: (&tenantapi.Guards{}).Of(client.ObjectKey{Namespace: "team", Name: "blue"}), what: "the addons",
		wanted: []client.Object{&corev1.ConfigMap{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "cluster-info"},
		}},
	}
}

func TestFinding6ATenantThatRedirectsIsNotFollowed(t *testing.T) {
	const inside = "what the manager alone reaches"
	asked := atomic.Int32{}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		http.Error(w, inside, http.StatusForbidden)
	}))
	t.Cleanup(elsewhere.Close)
	for name, ready := range map[string]bool{"when it is asked whether it is ready": false, "when it is asked for an object": true} {
		t.Run(name, func(t *testing.T) {
			visit := hostileVisit(t, func(w http.ResponseWriter, r *http.Request) {
				if ready && r.URL.Path == "/readyz" {
					return
				}
				http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
			})
			problem := visit.ask(t.Context()).Problem
			if !strings.Contains(problem, "redirect") || strings.Contains(problem, inside) || strings.Contains(problem, elsewhere.URL) {
				t.Errorf("the condition says %q", problem)
			}
			if asked.Load() != 0 {
				t.Errorf("the other server was asked %d times", asked.Load())
			}
		})
	}
}
