package controllers

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/adoption"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/keyrotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

var (
	errConflict = apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "a", errors.New("newer"))
	errExists   = apierrors.NewAlreadyExists(schema.GroupResource{Resource: "secrets"}, "a")
	errLost     = &pki.LostError{Keys: []pki.LostKey{{What: "cluster CA"}}}
	errHeld     = &ports.HeldError{First: 20000}
)

func TestWhenToLookAgain(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, test := range map[string]struct {
		is func(*scope)
		// after is the least time; a tenth may be added so that many tenants do not look together.
		after time.Duration
		// failed is a part of the error, which makes the queue try again with a growing delay.
		failed string
	}{
		"a settled control plane": {is: func(*scope) {}, after: time.Minute},
		"a step waits":            {is: func(s *scope) { s.end(names.EtcdData, flow.Waiting("for members")) }, after: time.Minute},
		"a step failed":           {is: func(s *scope) { s.end(names.EtcdData, flow.Failed(errRefused)) }, failed: "step etcd-data: connection refused"},
		"a step lost a race":      {is: func(s *scope) { s.end(names.EtcdData, flow.Failed(fmt.Errorf("apply: %w", errConflict))) }, after: 100 * time.Millisecond},
		"a cache was late":        {is: func(s *scope) { s.end(names.EtcdData, flow.Failed(fmt.Errorf("create: %w", errExists))) }, after: 100 * time.Millisecond},
		"key material is lost":    {is: func(s *scope) { s.end(names.StepKeyMaterial, keyrotation.Failed(fmt.Errorf("ensure: %w", errLost))) }, after: time.Minute},
		"a port block is held":    {is: func(s *scope) { s.end(names.StepPorts, ports.ClaimFailed(errHeld)) }, after: time.Minute},
		"key material is lost and one races": {is: func(s *scope) {
			s.end(names.EtcdData, flow.Failed(errConflict))
			s.end(names.StepKeyMaterial, keyrotation.Failed(errLost))
		}, after: 100 * time.Millisecond},
		"key material is lost and one fails": {is: func(s *scope) {
			s.end(names.EtcdData, flow.Failed(errRefused))
			s.end(names.StepKeyMaterial, keyrotation.Failed(errLost))
		}, failed: "connection refused"},
		"the tenant's API does not answer": {is: func(s *scope) { s.end(names.StepTenantObjects, flow.Waiting("it does not answer")) }, after: time.Minute},
		"etcd is not healthy":              {is: unhealthy(conditionsv1.EtcdClusterHealthyCondition), after: 10 * time.Second},
		"a component is not healthy":       {is: unhealthy(conditionsv1.ControlPlaneComponentsHealthyCondition), after: 10 * time.Second},
		"a certificate is due in a year":   {is: func(s *scope) { s.renewAt(now.AddDate(1, 0, 0)) }, after: time.Minute},
		"a certificate is due soon":        {is: func(s *scope) { s.renewAt(now.Add(20 * time.Second)) }, after: 20 * time.Second},
		"the first certificate counts":     {is: func(s *scope) { s.renewAt(now.Add(20 * time.Second)); s.renewAt(now.Add(time.Hour)) }, after: 20 * time.Second},
		"a certificate is overdue":         {is: func(s *scope) { s.renewAt(now.Add(-time.Hour)) }, after: time.Second},
		"a certificate that is never due":  {is: func(s *scope) { s.renewAt(time.Time{}) }, after: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			s := initializedScope()
			status.Set(s.statusInput(), settled())
			test.is(s)
			r := &Reconciler{Clock: clocktesting.NewFakeClock(now)}
			result, err := r.result(t.Context(), s, s.controlPlane)
			if test.failed != "" {
				if err == nil || !strings.Contains(err.Error(), test.failed) || result.RequeueAfter != 0 {
					t.Errorf("got %v, %v", result, err)
				}
				return
			}
			if err != nil || result.RequeueAfter < test.after || result.RequeueAfter > test.after*11/10 {
				t.Errorf("looks again after %s, %v", result.RequeueAfter, err)
			}
		})
	}
}

func unhealthy(conditionType string) func(*scope) {
	return func(s *scope) {
		conditions.Set(s.controlPlane, status.Condition(conditionType, metav1.ConditionFalse, conditionsv1.UnhealthyReason, "no"))
	}
}

func TestOnlyWhatNoRetryResolvesIsForAPerson(t *testing.T) {
	for name, test := range map[string]struct {
		result flow.Result
		// reason is the condition's; empty when another try may help.
		reason string
	}{
		"lost key material":               {keyrotation.Failed(errLost), conditionsv1.KeyMaterialLostReason},
		"invalid key material":            {keyrotation.Failed(&pki.InvalidError{}), conditionsv1.InvalidKeyMaterialReason},
		"one of several":                  {keyrotation.Failed(errors.Join(errRefused, errLost)), conditionsv1.KeyMaterialLostReason},
		"keys that cannot be read":        {keyrotation.Failed(errRefused), ""},
		"a conflict about keys":           {keyrotation.Failed(errConflict), ""},
		"a block that is held":            {ports.ClaimFailed(errHeld), conditionsv1.ReconcileFailedReason},
		"a block outside of the range":    {ports.ClaimFailed(&ports.OutsideError{}), conditionsv1.ReconcileFailedReason},
		"a range without a block":         {ports.ClaimFailed(&ports.ExhaustedError{}), conditionsv1.ReconcileFailedReason},
		"a claim that cannot be written":  {ports.ClaimFailed(errRefused), ""},
		"a patch that cannot be applied":  {adoption.RenderingFailed(fmt.Errorf("render: %w", &patches.Error{})), conditionsv1.ReconcileFailedReason},
		"a rendering that is not stored":  {adoption.RenderingFailed(errRefused), ""},
		"a rendering that others adopted": {adoption.RenderingFailed(errExists), ""},
	} {
		if test.result.Blocked() != (test.reason != "") || test.result.Reason() != test.reason || test.result.Err() == nil {
			t.Errorf("%s: blocked %t for %q, %v", name, test.result.Blocked(), test.result.Reason(), test.result.Err())
		}
	}
}

func TestMovesAreHeldBackWhereThePodsAreHere(t *testing.T) {
	controlPlane := &controlplanev1.KOKControlPlane{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": "b"}}}
	blockMove(controlPlane, true)
	if _, there := controlPlane.Annotations[clusterctlv1.BlockMoveAnnotation]; !there || controlPlane.Annotations["a"] != "b" {
		t.Errorf("annotations: %v", controlPlane.Annotations)
	}
	blockMove(controlPlane, false)
	if _, there := controlPlane.Annotations[clusterctlv1.BlockMoveAnnotation]; there || controlPlane.Annotations["a"] != "b" {
		t.Errorf("annotations: %v", controlPlane.Annotations)
	}
	blockMove(&controlplanev1.KOKControlPlane{}, true)
}

func TestARolloutIsAnInputOnceItsTimeHasPassed(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, test := range map[string]struct {
		after time.Time
		want  string
	}{
		"no rollout is asked for": {time.Time{}, ""},
		"its time is to come":     {now.Add(time.Second), ""},
		"its time is now":         {now, "2026-01-02T03:04:05Z"},
		"its time has passed":     {now.Add(-time.Hour), "2026-01-02T02:04:05Z"},
		"in another time zone":    {now.Add(-time.Hour).In(time.FixedZone("", 3600)), "2026-01-02T02:04:05Z"},
	} {
		controlPlane := &controlplanev1.KOKControlPlane{Spec: controlplanev1.KOKControlPlaneSpec{Version: "1.36.3"}}
		controlPlane.Spec.Rollout.After = metav1.NewTime(test.after)
		s := newScope(&clusterv1.Cluster{}, controlPlane, versions.BuiltIn(), &Host{}, nil, now)
		if s.input.RolloutAfter != test.want || s.input.Version != "v1.36.3" {
			t.Errorf("%s: rollout %q, version %q", name, s.input.RolloutAfter, s.input.Version)
		}
	}
}

func TestAnUnsupportedVersionIsSaidToBe(t *testing.T) {
	controlPlane := &controlplanev1.KOKControlPlane{Spec: controlplanev1.KOKControlPlaneSpec{Version: "v1.20.0"}}
	if err := newScope(&clusterv1.Cluster{}, controlPlane, versions.BuiltIn(), &Host{}, nil, time.Now()).unsupported; err == nil || !strings.Contains(err.Error(), "spec.version") {
		t.Errorf("err = %v", err)
	}
}

func TestOwnersAreSetInOneClusterOnly(t *testing.T) {
	s := initializedScope()
	s.controlPlane.Name, s.controlPlane.UID = "blue", "1"
	if owner := s.hostOwner(); owner == nil || owner.UID != "1" || owner.Kind != "KOKControlPlane" || !*owner.Controller {
		t.Errorf("in the management cluster the owner is %v", owner)
	}
	s.host.Own = false
	if owner := s.hostOwner(); owner != nil {
		t.Errorf("in another cluster the owner is %v", owner)
	}
	if s.owner() == nil {
		t.Error("Cluster API's Secrets have no owner")
	}
}
