package controllers

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator/operatortest"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/keyrotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
)

// A pod that the operator deletes mounts certificates that nobody renews any more. What passes by itself must not end a step
// that has begun.
func TestEtcdIsLeftAloneWhileOnlyAPersonCanBringItsKeysBack(t *testing.T) {
	for name, test := range map[string]struct {
		ended     flow.Result
		forgotten int
	}{
		"they are gone in both places":            {keyrotation.Failed(&pki.LostError{}), 1},
		"a copy cannot be used, or copies differ": {keyrotation.Failed(&pki.InvalidError{}), 1},
		"they could not be read":                  {keyrotation.Failed(errors.New("an API server is away")), 0},
		"another write was faster":                {keyrotation.Failed(apierrors.NewConflict(schema.GroupResource{}, "blue-ca", nil)), 0},
		"it waits":                                {flow.Waiting("anything"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			notes := operatortest.New()
			s, seen := askable(t), settled()
			s.keys, s.outcomes = nil, []flow.Outcome{{Name: names.StepKeyMaterial, Ran: true, Result: test.ended}, {Name: names.StepCertificates}}
			reports := (&Reconciler{etcdOperator: notes}).operateEtcd(s, seen.Workloads, nil)
			if notes.Forgotten != test.forgotten || len(notes.Tasks) > 0 || len(reports) > 0 || s.probing {
				t.Errorf("forgotten %d times, tasks %v, reports %v, probing %t", notes.Forgotten, notes.Tasks, reports, s.probing)
			}
		})
	}
}

// The stored status stays until the first report.
func TestAnEtcdWithoutAReportIsStillProbed(t *testing.T) {
	s, seen := askable(t), settled()
	(&Reconciler{etcdOperator: operatortest.New()}).operateEtcd(s, seen.Workloads, nil)
	if !s.probing {
		t.Error("nothing is probed")
	}
}
