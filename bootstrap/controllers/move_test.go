package controllers

import (
	"bytes"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
)

// move does what clusterctl move does: specs and Secrets stay, UIDs are new, status is lost.
func (f *fixture) move() {
	f.t.Helper()
	f.changeMachine(func(m *clusterv1.Machine) {
		m.Spec.Bootstrap.DataSecretName, m.Status = ptr.To(key.Name), clusterv1.MachineStatus{}
	})
	config := f.config()
	if err := f.management.Delete(f.t.Context(), config.DeepCopy()); err != nil {
		f.t.Fatal(err)
	}
	config.ResourceVersion, config.UID, config.Status = "", "another", bootstrapv1.KOKConfigStatus{}
	if err := f.management.Create(f.t.Context(), config); err != nil {
		f.t.Fatal(err)
	}
}

func TestAMove(t *testing.T) {
	f := newFixture(t, ready()...)
	f.mustReconcile()
	before := f.data()
	f.move()
	f.mustReconcile()
	after := f.data()
	if !bytes.Equal(before.Data["value"], after.Data["value"]) || f.tokensCreated != 1 {
		t.Errorf("the data changed, or %d tokens were made", f.tokensCreated)
	}
	if owner := metav1.GetControllerOf(after); owner == nil || owner.UID != "another" {
		t.Errorf("the Secret is owned by %+v", owner)
	}
	f.expectCondition("Ready", metav1.ConditionTrue, "Ready")
}

// TestARevokedTokenStaysRevoked: after a move nobody knows yet that the machine has a node.
func TestARevokedTokenStaysRevoked(t *testing.T) {
	joined := func(t *testing.T) *fixture {
		f := newFixture(t, ready()...)
		f.mustReconcile()
		f.join()
		f.mustReconcile()
		return f
	}
	expectRevoked := func(f *fixture) {
		f.t.Helper()
		f.mustReconcile()
		if len(f.tenantTokens()) != 0 || f.tokensCreated != 1 {
			f.t.Errorf("the tenant has %d tokens, %d were made", len(f.tenantTokens()), f.tokensCreated)
		}
		f.expectCondition("BootstrapTokenValid", metav1.ConditionFalse, "Revoked")
		f.expectCondition("Ready", metav1.ConditionTrue, "Ready")
	}
	t.Run("after a move", func(t *testing.T) {
		f := joined(t)
		f.move()
		expectRevoked(f)
		f.clock.Step(time.Hour)
		expectRevoked(f)
	})
	t.Run("after a move without the bootstrap data", func(t *testing.T) {
		f := joined(t)
		f.changeMachine(func(m *clusterv1.Machine) { m.Spec.ProviderID = "idc://host-1" })
		f.move()
		if err := f.management.Delete(t.Context(), f.data()); err != nil {
			t.Fatal(err)
		}
		expectRevoked(f)
	})
	t.Run("when an older manager revoked it", func(t *testing.T) {
		f := joined(t)
		config := f.config()
		config.Annotations = nil
		if err := f.management.Update(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		f.mustReconcile()
		f.move()
		expectRevoked(f)
	})
	t.Run("but a config with another token is not concerned", func(t *testing.T) {
		objects := ready()
		objects[2].SetAnnotations(map[string]string{bootstrapv1.TokenRevokedAnnotation: "abcdef"})
		f := newFixture(t, objects...)
		f.mustReconcile()
		f.move()
		f.mustReconcile()
		if len(f.tenantTokens()) != 1 {
			t.Errorf("the tenant has %d tokens", len(f.tenantTokens()))
		}
		f.expectCondition("BootstrapTokenValid", metav1.ConditionTrue, "Valid")
	})
}
