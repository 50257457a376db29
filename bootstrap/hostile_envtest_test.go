//go:build envtest

package main

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/tenantapi"
)

// hostileTenant is a worker whose Cluster has the API server of an attacker, and a user of their choice for the manager.
func hostileTenant(t *testing.T, answer http.HandlerFunc, user clientcmdapi.AuthInfo) *worker {
	t.Helper()
	server := httptest.NewTLSServer(answer)
	w := newWorker(t, func(*bootstrapv1.KOKConfig) {})
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"a": {
			Server:                   server.URL,
			CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"a": &user},
		Contexts:       map[string]*clientcmdapi.Context{"a": {Cluster: "a", AuthInfo: "a"}},
		CurrentContext: "a",
	})
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{}
	if err := environment.Client.Get(t.Context(), client.ObjectKey{Namespace: w.key.Namespace, Name: "blue-kubeconfig"}, secret); err != nil {
		t.Fatal(err)
	}
	secret.Data = map[string][]byte{"value": content}
	// It was there before the webhook that refuses some.
	asked, err := environment.WithoutWebhooks(t.Context(), w.key.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	if err := environment.Client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if err := asked(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.clusterIsUp()
	return w
}

// notReached waits for the config to say that the tenant is not connected, and why. The controller would look again after a
// minute; each look of the test makes it look at once.
func (w *worker) notReached(why string) {
	w.t.Helper()
	looks := 0
	w.eventually("the config says "+why, func() bool {
		looks++
		touched := w.config()
		touched.Annotations = map[string]string{"test": strconv.Itoa(looks)}
		_ = environment.Client.Update(w.t.Context(), touched)
		for _, condition := range w.config().Status.Conditions {
			if condition.Reason == bootstrapv1.TenantUnreachableReason && strings.Contains(condition.Message, why) {
				return true
			}
		}
		return false
	})
}

func TestFinding6ARedirectOfATenantIsNotFollowed(t *testing.T) {
	const inside = "what the manager alone reaches"
	asked := atomic.Int32{}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte(inside))
	}))
	t.Cleanup(elsewhere.Close)
	w := hostileTenant(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}, clientcmdapi.AuthInfo{Token: "of-the-tenant"})
	defer func() {
		if asked.Load() != 0 {
			t.Errorf("the other server was asked %d times", asked.Load())
		}
	}()
	w.notReached("redirect")
	for _, condition := range w.config().Status.Conditions {
		if strings.Contains(condition.Message, inside) {
			t.Errorf("condition %s quotes the other server: %s", condition.Type, condition.Message)
		}
	}
}

func TestFinding1NoFileOfTheManagerGoesToAServerThatAKubeconfigNames(t *testing.T) {
	const content = "token-of-the-manager"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	lock, asked := sync.Mutex{}, []string{}
	w := hostileTenant(t, func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		defer lock.Unlock()
		asked = append(asked, r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusForbidden)
	}, clientcmdapi.AuthInfo{TokenFile: file})
	defer func() {
		lock.Lock()
		defer lock.Unlock()
		if len(asked) > 0 {
			t.Errorf("the attacker's server was asked, with %q", asked)
		}
	}()
	w.notReached("tokenFile is refused")
}

func TestFinding3AnAnswerWithoutAnEndIsNotRead(t *testing.T) {
	written := atomic.Int64{}
	w := hostileTenant(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for part := make([]byte, 1<<16); ; {
			n, err := w.Write(part)
			written.Add(int64(n))
			if err != nil {
				return
			}
		}
	}, clientcmdapi.AuthInfo{Token: "of-the-tenant"})
	w.notReached("more than 32768 KiB")
	if written.Load() > 64<<20 {
		t.Errorf("%d bytes were taken", written.Load())
	}
}

// inFrontOf answers in place of the tenant's API server where instead says so, and lets it answer all else.
func inFrontOf(t *testing.T, instead func(w http.ResponseWriter, r *http.Request) (answered bool)) http.HandlerFunc {
	t.Helper()
	server, err := url.Parse(environment.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(environment.Config)
	if err != nil {
		t.Fatal(err)
	}
	behind := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(server)
		r.Out.Header.Del("Authorization")
	}}
	return func(w http.ResponseWriter, r *http.Request) {
		if !instead(w, r) {
			behind.ServeHTTP(w, r)
		}
	}
}

// hostileAnswers is how many answers of tenants were refused for an offence.
func hostileAnswers(t *testing.T, offence tenantapi.Offence) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "kok_tenant_hostile_answers_total" && metric.GetLabel()[0].GetValue() == string(offence) {
				return metric.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("nobody counts answers that are %s", offence)
	return 0
}

// Who lists requests for certificates keeps all pages until the last one has come. Another tenant is cared for as if nothing was.
func TestFinding3PagesWithoutAnEndEndNoManager(t *testing.T) {
	const most = 1000
	pages, before := atomic.Int32{}, hostileAnswers(t, tenantapi.TooMany)
	w := hostileTenant(t, inFrontOf(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/apis/certificates.k8s.io/v1/certificatesigningrequests" || r.Method != http.MethodGet {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Has("watch") {
			// An informer lists where a server knows no watch that begins with all objects.
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
			return true
		}
		_, _ = fmt.Fprintf(w, `{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequestList","metadata":{"resourceVersion":"1","continue":"%d"},"items":[{"metadata":{"name":"csr"}}]}`, pages.Add(1))
		return true
	}), clientcmdapi.AuthInfo{Token: "of-the-tenant"})
	w.eventually("the pages are too many", func() bool { return hostileAnswers(t, tenantapi.TooMany) > before })
	up(t)
	if got := pages.Load(); got < most || got > most+1 {
		t.Errorf("%d pages were asked for, and %d may be", got, most)
	}
}
