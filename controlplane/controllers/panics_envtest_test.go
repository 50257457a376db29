//go:build envtest

package controllers

import (
	"context"
	"strings"
	"testing"

	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/apply"
)

// A change of status reconciles again at once: a panic that changed it each time would reconcile for ever.
func TestAStepThatPanicsChangesStatusOnce(t *testing.T) {
	for name, test := range map[string]struct {
		breaks     func(*program)
		step, says string
	}{
		"in the step itself": {func(p *program) { p.Host.Claims = nil }, "ports", "step ports panicked; the manager's log has the stack"},
		"in a goroutine of the step": {func(p *program) {
			p.Host.Applier = apply.New(panicsOnGet{p.Client}, p.APIReader)
		}, "endpoint", "applying an object panicked; the manager's log has the stack"},
	} {
		t.Run(name, func(t *testing.T) {
			tt := newTenantTest(t, single)
			tt.settle()
			sound := *tt.program.Host
			test.breaks(tt.program)
			for _, wrote := range []bool{true, false, false} {
				tt.program.gate.take()
				if err := tt.reconcile(); err == nil || !strings.Contains(err.Error(), test.says) {
					t.Errorf("the error, for which the queue backs off, is %v", err)
				}
				if writes := tt.program.gate.takeWrites(); len(writes) > 0 != wrote {
					t.Errorf("it wrote %v", writes)
				}
				if got := conditions.Get(tt.controlPlane(), conditionsv1.ReconciledCondition); got.Reason != conditionsv1.ReconcileFailedReason || !strings.Contains(got.Message, test.step+": "+test.says) {
					t.Errorf("Reconciled is %s: %s", got.Reason, got.Message)
				}
			}
			*tt.program.Host = sound
			tt.settle()
			if got := conditions.Get(tt.controlPlane(), conditionsv1.ReconciledCondition); strings.Contains(got.Message, "panicked") {
				t.Errorf("after the fault is gone, Reconciled is %s: %s", got.Reason, got.Message)
			}
		})
	}
}

// panicsOnGet is a client that cannot read.
type panicsOnGet struct{ client.Client }

func (panicsOnGet) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	panic(new(int))
}
