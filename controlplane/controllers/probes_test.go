package controllers

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status/statustest"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/tenantapi"
)

// notebook notes the probes, and has the results that a test wrote.
type notebook struct {
	asked   map[string]probe.Probe
	answers map[string]probe.Result
}

func newNotebook() *notebook {
	return &notebook{asked: map[string]probe.Probe{}, answers: map[string]probe.Result{}}
}

func (n *notebook) Probe(key probe.Key, asked probe.Probe) (probe.Result, bool) {
	n.asked[key.Kind] = asked
	answer, ok := n.answers[key.Kind]
	return answer, ok
}

func (n *notebook) Withdraw(key probe.Key) { delete(n.asked, key.Kind) }

func (n *notebook) Forget(client.ObjectKey) {}

// askable is a scope of a control plane of which the addresses and the keys are there.
func askable(t *testing.T) *scope {
	t.Helper()
	s := initializedScope()
	s.keys = &pki.KeyMaterial{ClusterCA: pki.CA{Bundle: []byte("mine")}}
	s.input.Cluster = s.key
	s.input.Spec.Etcd.Data.Replicas, s.input.Spec.Etcd.Events.Replicas = new(int32(3)), new(int32(3))
	s.input.Addresses = map[string]string{}
	for _, component := range etcdclusters.Components {
		for i := range int32(3) {
			s.input.Addresses[statustest.PodName(component, i)] = "10.250.0.1"
		}
	}
	return s
}

func TestTheTenantsAnswerIsWhatTheStepWaitsFor(t *testing.T) {
	notes := newNotebook()
	r := &Reconciler{prober: notes, Clock: clocktesting.NewFakeClock(time.Now())}
	run := func(s *scope) string {
		t.Helper()
		s.input.Version, s.input.Network.ServiceCIDRs, s.input.Network.PodCIDRs = "v1.36.3", []string{"10.96.0.0/12"}, []string{"192.168.0.0/16"}
		s.input.Network.DNSDomain = "cluster.local"
		s.controlPlane.Spec.ControlPlaneEndpoint = controlplanev1.APIEndpoint{Host: "10.250.0.1", Port: 6443}
		result := r.applyTenantObjects(t.Context(), s)
		if result.Err() != nil {
			t.Fatal(result.Err())
		}
		return result.Waiting()
	}
	s := askable(t)
	if waiting := run(s); waiting != "the tenant's API at 10.250.0.1:6443 is being probed" || !s.probing {
		t.Errorf("before the first answer it waits %q, asking %t", waiting, s.probing)
	}
	first := notes.asked[tenantProbeKind].Identity
	for _, problem := range []string{"it does not answer", ""} {
		notes.answers[tenantProbeKind] = probe.Result{Problem: problem}
		s = askable(t)
		if waiting := run(s); waiting != problem || s.probing {
			t.Errorf("for the answer %q it waits %q, asking %t", problem, waiting, s.probing)
		}
	}
	if notes.asked[tenantProbeKind].Identity != first {
		t.Error("the same probe has another identity")
	}
	s = askable(t)
	s.keys.ClusterCA.Bundle = []byte("other")
	if run(s); notes.asked[tenantProbeKind].Identity == first {
		t.Error("a tenant with another CA is not asked anew")
	}
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

func serveTenantAPI(t *testing.T, of *issued) *tenantAPI {
	t.Helper()
	api := &tenantAPI{}
	api.address = serveAsTenant(t, of, api.answer)
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
func serveAsTenant(t *testing.T, of *issued, answer http.HandlerFunc) (address string) {
	t.Helper()
	serving, err := tls.X509KeyPair(of.data[names.KubeAPIServer]["server.crt"], of.data[names.KubeAPIServer]["server.key"])
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(of.keys.ClusterCA.Bundle)
	server := httptest.NewUnstartedServer(answer)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{serving}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestATenantIsAskedWhetherItIsReadyAndThenGivenItsObjects(t *testing.T) {
	of := issue(t, "blue", "blue.example.com")
	api := serveTenantAPI(t, of)
	clock := clocktesting.NewFakeClock(time.Now())
	check := &tenantProbe{r: &Reconciler{Clock: clock}, keys: of.keys, address: api.address, guard: (&tenantapi.Guards{}).Of(client.ObjectKey{Name: "blue"}), what: "the addons", objects: clusterInfoAlone}
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
		{"drift is looked for after a while", func() { api.ready.Store(true); clock.Step(tenantInterval) }, "", 3, 2},
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

func TestConditionsHoldWhileASettledTenantIsAskedForTheFirstTime(t *testing.T) {
	s := initializedScope()
	status.Set(s.statusInput(), settled())
	if !conditions.IsTrue(s.controlPlane, controlplanev1.EtcdClusterHealthyCondition) {
		t.Fatal("it was not healthy before")
	}
	for name, test := range map[string]struct {
		is   func(*scope)
		want bool
	}{
		"it is asked for the first time":  {func(*scope) {}, true},
		"all probes have a result":        {func(s *scope) { s.probing = false }, false},
		"its spec changed since":          {func(s *scope) { s.controlPlane.Generation++ }, false},
		"it was never initialized before": {func(s *scope) { conditions.Delete(s.controlPlane, controlplanev1.InitializedCondition) }, false},
	} {
		s := initializedScope()
		status.Set(s.statusInput(), settled())
		s.probing = true
		test.is(s)
		if got := s.keepLastStatus(); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
