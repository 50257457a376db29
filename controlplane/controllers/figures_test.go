package controllers

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

var errStep = errors.New("broken")

func clientKey(object client.Object) client.ObjectKey { return client.ObjectKeyFromObject(object) }

// measured is the scope of a settled control plane, changed.
func measured(changes ...func(*scope)) *scope {
	controlPlane := told()
	controlPlane.Spec.Version = "v1.35.1"
	for _, spec := range []*controlplanev1.EtcdClusterSpec{&controlPlane.Spec.Etcd.Data, &controlPlane.Spec.Etcd.Events} {
		spec.Replicas = ptr.To[int32](3)
	}
	s := &scope{key: client.ObjectKey{Namespace: "team", Name: "blue"}, controlPlane: controlPlane}
	for _, change := range changes {
		change(s)
	}
	return s
}

func upgradeTo(version string) func(*scope) {
	return func(s *scope) { s.controlPlane.Spec.Version = version }
}

// tooOldKubelets make the upgrade of a scope wait.
func tooOldKubelets(s *scope) {
	s.outcomes = []flow.Outcome{{Name: stepVersion, Ran: true, Result: flow.Postponed("kubelets")}}
}

func TestAnUpgradeWaitsForOneThing(t *testing.T) {
	wanted := upgradeTo("v1.36.3")
	for name, test := range map[string]struct {
		is   []func(*scope)
		want string
	}{
		"there is none": {},
		"it goes on":    {is: []func(*scope){wanted}},
		"a race is no failure": {is: []func(*scope){wanted, func(s *scope) {
			s.outcomes = []flow.Outcome{{Result: flow.Failed(errConflict)}}
		}}},
		"kubelets are too old":                  {is: []func(*scope){wanted, tooOldKubelets}, want: "kubelets"},
		"no table has the version":              {is: []func(*scope){wanted, func(s *scope) { s.unsupported = errStep }}, want: "version"},
		"patches are refused":                   {is: []func(*scope){wanted, func(s *scope) { s.refused = errStep }}, want: "patches"},
		"etcd gains members":                    {is: []func(*scope){wanted, func(s *scope) { s.controlPlane.Spec.Etcd.Data.Replicas = ptr.To[int32](5) }}, want: "etcd-members"},
		"a step fails":                          {is: []func(*scope){wanted, func(s *scope) { s.outcomes = []flow.Outcome{{Result: flow.Failed(errStep)}} }}, want: "failure"},
		"what fails without an upgrade is none": {is: []func(*scope){func(s *scope) { s.outcomes = []flow.Outcome{{Result: flow.Failed(errStep)}} }}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := upgradeWaits(measured(test.is...)); got != test.want {
				t.Errorf("it waits for %q, want %q", got, test.want)
			}
		})
	}
}

func TestFiguresFollowAControlPlaneAndGoWithIt(t *testing.T) {
	f := &figures{}
	end := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	answered := &observation{etcd: map[string]*operator.Report{names.EtcdData: {Health: &etcd.Health{Members: []etcd.Member{
		{DatabaseSize: 100, DatabaseQuota: 1000}, {DatabaseSize: 300, DatabaseQuota: 900}, {},
	}}}}}
	size := func() float64 { return testutil.ToFloat64(databaseBytes.WithLabelValues("team", "blue", "data")) }
	s := measured(upgradeTo("v1.36.3"), func(s *scope) {
		tooOldKubelets(s)
		s.endsAt(end.Add(time.Hour))
		s.endsAt(end)
		s.endsAt(time.Time{})
	})
	f.record(s, answered)
	f.record(s, &observation{})
	for what, got := range map[string][2]float64{
		"the largest database":     {size(), 300},
		"the smallest quota":       {testutil.ToFloat64(databaseQuotaBytes.WithLabelValues("team", "blue", "data")), 900},
		"the first end":            {testutil.ToFloat64(certificatesEnd.WithLabelValues("team", "blue")), float64(end.Unix())},
		"the upgrade that waits":   {testutil.ToFloat64(upgradesWaiting.WithLabelValues("kubelets")), 1},
		"series of etcd":           {float64(seriesOf(t, "team", "blue", databaseBytes)), 1},
		"reasons without upgrades": {testutil.ToFloat64(upgradesWaiting.WithLabelValues("failure")), 0},
	} {
		if got[0] != got[1] {
			t.Errorf("%s is %v, want %v", what, got[0], got[1])
		}
	}

	s.outcomes = []flow.Outcome{{Result: flow.Failed(errStep)}}
	f.record(s, answered)
	if kubelets, failure := testutil.ToFloat64(upgradesWaiting.WithLabelValues("kubelets")), testutil.ToFloat64(upgradesWaiting.WithLabelValues("failure")); kubelets != 0 || failure != 1 {
		t.Errorf("%v wait for kubelets and %v for a failure", kubelets, failure)
	}
	s.controlPlane.Status.Versions = []clusterv1.StatusVersion{{Version: "v1.36.3"}}
	f.record(s, answered)
	f.forget(clientKey(s.controlPlane))
	f.forget(clientKey(s.controlPlane))
	left := seriesOf(t, "team", "blue", databaseBytes, databaseQuotaBytes, certificatesEnd)
	if failure := testutil.ToFloat64(upgradesWaiting.WithLabelValues("failure")); left != 0 || failure != 0 {
		t.Errorf("of one that is gone %d series are left, and %v upgrades", left, failure)
	}
}

// seriesOf counts the series of one tenant; other tests of this package leave some of theirs.
func seriesOf(t *testing.T, namespace, name string, collectors ...prometheus.Collector) int {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, family := range families {
		for _, series := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range series.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if labels["cluster_namespace"] == namespace && labels["cluster_name"] == name {
				count++
			}
		}
	}
	return count
}
