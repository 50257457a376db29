package tenantprobes

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// hostileTenant is a check to a tenant whose administrator has put a server of their own at its address.
func hostileTenant(t *testing.T, answer http.HandlerFunc) *objectsProbe {
	t.Helper()
	keys := makeKeys(t)
	return &objectsProbe{api: reach(keys, serveAsTenant(t, keys, answer), clock.RealClock{}), what: "the addons", objects: clusterInfoAlone}
}

// clusterInfoAlone is all that a tenant shall hold.
func clusterInfoAlone() (wanted, unwanted []client.Object, err error) {
	return []client.Object{&corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "cluster-info"},
	}}, nil, nil
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
			check := hostileTenant(t, func(w http.ResponseWriter, r *http.Request) {
				if ready && r.URL.Path == "/readyz" {
					return
				}
				http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
			})
			problem := check.do(t.Context()).Problem
			if !strings.Contains(problem, "redirect") || strings.Contains(problem, inside) || strings.Contains(problem, elsewhere.URL) {
				t.Errorf("the condition says %q", problem)
			}
			if asked.Load() != 0 {
				t.Errorf("the other server was asked %d times", asked.Load())
			}
		})
	}
}

func TestFinding3ATenantThatAnswersWithoutAnEndIsLeftAlone(t *testing.T) {
	asked, written := atomic.Int32{}, atomic.Int64{}
	check := hostileTenant(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "text/plain")
		for part := make([]byte, 1<<16); ; {
			n, err := w.Write(part)
			written.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	for range 3 {
		if problem := check.do(t.Context()).Problem; !strings.Contains(problem, "more than 32768 KiB") {
			t.Errorf("the condition says %q", problem)
		}
	}
	if problem := check.do(t.Context()).Problem; !strings.Contains(problem, "left alone for 1m0s") {
		t.Errorf("the condition says %q", problem)
	}
	if asked.Load() != 3 || written.Load() > 3*64<<20 {
		t.Errorf("it was asked %d times, and %d bytes were taken", asked.Load(), written.Load())
	}
}

// A client that takes compressed answers unpacks them before anybody counts their bytes.
func TestFinding3ATenantThatCompressesItsAnswersIsNotUnpacked(t *testing.T) {
	packed := &bytes.Buffer{}
	writer := gzip.NewWriter(packed)
	for part := make([]byte, 1<<20); packed.Len() < 1<<17; {
		if _, err := writer.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	offered := atomic.Value{}
	check := hostileTenant(t, func(w http.ResponseWriter, r *http.Request) {
		offered.Store(r.Header.Get("Accept-Encoding"))
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed.Bytes())
	})
	if problem := check.do(t.Context()).Problem; !strings.Contains(problem, "its answer is compressed") {
		t.Errorf("the condition says %q", problem)
	}
	if got := offered.Load(); got != "" {
		t.Errorf("the tenant was told that it may answer in %q", got)
	}
}

func TestFinding3AConditionHasTheBeginningOfALongAnswer(t *testing.T) {
	long := strings.Repeat("a", 32<<10)
	check := hostileTenant(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprintf(w, `{"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 403, "message": "%s"}`, long)
	})
	if problem := check.do(t.Context()).Problem; !strings.Contains(problem, long[:1000]) || len(problem) > 4<<10 {
		t.Errorf("the condition has %d bytes", len(problem))
	}
}
