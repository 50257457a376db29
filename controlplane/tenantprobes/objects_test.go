package tenantprobes

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/certificates"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/secrets"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/tenantapi"
)

// makeKeys are the keys of a new tenant.
func makeKeys(t *testing.T) *pki.KeyMaterial {
	t.Helper()
	host := fake.NewClientBuilder().Build()
	access := secrets.Access{Cached: host, Live: host, Writer: host}
	store := &pki.Store{Management: access, Host: access}
	keys, err := store.Ensure(t.Context(), pki.Request{
		Cluster: client.ObjectKey{Namespace: "team", Name: "blue"}, UsedBy: func(context.Context) (string, error) { return "", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// serving is a certificate of a tenant's API server.
func serving(t *testing.T, keys *pki.KeyMaterial) tls.Certificate {
	t.Helper()
	ca := keys.ClusterCA
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{certificates.TenantServerName},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, ca.Certificate, ca.Certificate.PublicKey, ca.Key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: ca.Key}
}

// reach is the way to a tenant at an address.
func reach(keys *pki.KeyMaterial, address string, by clock.PassiveClock) *API {
	return &API{address: address, issuer: certificates.Issuer{Keys: keys.Only(pki.ClusterCA), Clock: by}, guard: (&tenantapi.Guards{}).Of(client.ObjectKey{Namespace: "team", Name: "blue"})}
}

// tenantAPI is a server with the certificates of a tenant's API that notes what it is asked for. It is
// ready when it is told so, and has no objects.
type tenantAPI struct {
	address string
	ready   atomic.Bool
	refuse  atomic.Bool
	looked  atomic.Int32
	applied atomic.Int32
}

func serveTenantAPI(t *testing.T, keys *pki.KeyMaterial) *tenantAPI {
	t.Helper()
	api := &tenantAPI{}
	api.address = serveAsTenant(t, keys, api.answer)
	return api
}

// answer answers as an API server with no object.
func (api *tenantAPI) answer(w http.ResponseWriter, request *http.Request) {
	switch {
	case request.URL.Path == "/readyz" && api.ready.Load():
	case request.URL.Path == "/readyz", request.Method == http.MethodPatch && api.refuse.Load():
		w.WriteHeader(http.StatusInternalServerError)
	case request.Method == http.MethodPatch:
		api.applied.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"kube-public","name":"cluster-info"}}`)
	default:
		api.looked.Add(1)
		w.WriteHeader(http.StatusNotFound)
	}
}

// serveAsTenant is the address of a server with the certificate of a tenant's API server.
func serveAsTenant(t *testing.T, keys *pki.KeyMaterial, answer http.HandlerFunc) (address string) {
	t.Helper()
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(keys.ClusterCA.Bundle)
	server := httptest.NewUnstartedServer(answer)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{serving(t, keys)}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestATenantIsAskedWhetherItIsReadyAndThenGivenItsObjects(t *testing.T) {
	keys := makeKeys(t)
	api := serveTenantAPI(t, keys)
	clock := clocktesting.NewFakeClock(time.Now())
	check := &objectsProbe{api: reach(keys, api.address, clock), what: "the addons", objects: clusterInfoAlone}
	for _, step := range []struct {
		name            string
		before          func()
		problem         string
		looked, applied int32
	}{
		{"it is not ready", func() {}, "the tenant's API does not answer at " + api.address, 0, 0},
		{"it is ready and refuses", func() { api.ready.Store(true); api.refuse.Store(true) }, "does not take the addons", 1, 0},
		{"it accepts", func() { api.refuse.Store(false) }, "", 2, 1},
		{"it is asked again soon", func() { clock.Step(probe.Interval) }, "", 2, 1},
		{"it is no longer ready", func() { api.ready.Store(false) }, "does not answer", 2, 1},
		{"drift is looked for after a while", func() { api.ready.Store(true); clock.Step(interval) }, "", 3, 2},
	} {
		step.before()
		answer := check.do(t.Context())
		if (answer.Problem == "") != (step.problem == "") || !strings.Contains(answer.Problem, step.problem) {
			t.Errorf("%s: the answer is %q", step.name, answer.Problem)
		}
		if api.looked.Load() != step.looked || api.applied.Load() != step.applied {
			t.Errorf("%s: it was looked at %d times, applied %d times", step.name, api.looked.Load(), api.applied.Load())
		}
	}
}
