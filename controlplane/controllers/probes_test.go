package controllers

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status/statustest"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenantprobes"
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
	for _, component := range etcdcomponent.Components() {
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
	first := notes.asked[tenantprobes.MachinesKind].Identity
	for _, problem := range []string{"it does not answer", ""} {
		notes.answers[tenantprobes.MachinesKind] = probe.Result{Problem: problem}
		s = askable(t)
		if waiting := run(s); waiting != problem || s.probing {
			t.Errorf("for the answer %q it waits %q, asking %t", problem, waiting, s.probing)
		}
	}
	if notes.asked[tenantprobes.MachinesKind].Identity != first {
		t.Error("the same probe has another identity")
	}
	s = askable(t)
	s.keys.ClusterCA.Bundle = []byte("other")
	if run(s); notes.asked[tenantprobes.MachinesKind].Identity == first {
		t.Error("a tenant with another CA is not asked anew")
	}
}

func TestAddonsWaitForAVersionThatCanBeMade(t *testing.T) {
	notes, s := newNotebook(), askable(t)
	s.unsupported = errRefused
	r := &Reconciler{prober: notes, Clock: clocktesting.NewFakeClock(time.Now())}
	if result := r.applyAddons(t.Context(), s); result.Waiting() != errRefused.Error() || len(notes.asked) > 0 {
		t.Errorf("it waits %q, %v, and asks %v", result.Waiting(), result.Err(), notes.asked)
	}
}

func TestConditionsHoldWhileASettledTenantIsAskedForTheFirstTime(t *testing.T) {
	s := initializedScope()
	status.Set(s.statusInput(), settled())
	if !conditions.IsTrue(s.controlPlane, conditionsv1.EtcdClusterHealthyCondition) {
		t.Fatal("it was not healthy before")
	}
	for name, test := range map[string]struct {
		is   func(*scope)
		want bool
	}{
		"it is asked for the first time":  {func(*scope) {}, true},
		"all probes have a result":        {func(s *scope) { s.probing = false }, false},
		"its spec changed since":          {func(s *scope) { s.controlPlane.Generation++ }, false},
		"it was never initialized before": {func(s *scope) { conditions.Delete(s.controlPlane, conditionsv1.InitializedCondition) }, false},
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
