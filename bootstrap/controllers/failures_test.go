package controllers

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/cloudinit"
)

// failed reconciles, wants an error, and wants a condition to tell it.
func (f *fixture) failed(kind string, status metav1.ConditionStatus, reason, says string) {
	f.t.Helper()
	if _, err := f.reconcile(); err == nil {
		f.t.Fatal("nothing failed")
	}
	f.told(kind, status, reason, says)
}

// told wants a condition, and Ready, to say something.
func (f *fixture) told(kind string, status metav1.ConditionStatus, reason, says string) {
	f.t.Helper()
	for _, kind := range []string{kind, bootstrapv1.ReadyCondition} {
		f.expectCondition(kind, status, reason)
		if message := conditions.GetMessage(f.config(), kind); !strings.Contains(message, says) {
			f.t.Errorf("condition %s says %q, want %q", kind, message, says)
		}
	}
}

func TestWhatFailsIsTold(t *testing.T) {
	quota := apierrors.NewForbidden(corev1.Resource("secrets"), "worker-1", errors.New("exceeded quota: few"))
	t.Run("a quota on Secrets, until there is room", func(t *testing.T) {
		f := newFixture(t, ready()...)
		f.fail = func(where, _ string, _ *corev1.Secret) error {
			if where == "management" {
				return quota
			}
			return nil
		}
		f.failed("DataSecretAvailable", metav1.ConditionFalse, "ReconcileFailed", "create Secret worker-1 with the bootstrap data: secrets \"worker-1\" is forbidden: exceeded quota")
		f.fail = nil
		f.mustReconcile()
		f.expectCondition("DataSecretAvailable", metav1.ConditionTrue, "Available")
		f.expectCondition("Ready", metav1.ConditionTrue, "Ready")
	})
	t.Run("a tenant that refuses the token", func(t *testing.T) {
		f := newFixture(t, ready()...)
		f.fail = func(where, _ string, _ *corev1.Secret) error {
			if where == "tenant" {
				return quota
			}
			return nil
		}
		f.failed("DataSecretAvailable", metav1.ConditionFalse, "ReconcileFailed", "in the tenant")
	})
	t.Run("a tenant that refuses to renew it", func(t *testing.T) {
		f := newFixture(t, ready()...)
		f.mustReconcile()
		f.fail = func(_, verb string, _ *corev1.Secret) error {
			if verb == "update" {
				return quota
			}
			return nil
		}
		f.clock.Step(time.Hour)
		f.failed("BootstrapTokenValid", metav1.ConditionUnknown, "Unknown", "renew bootstrap token")
		f.expectCondition("DataSecretAvailable", metav1.ConditionTrue, "Available")
		f.fail = nil
		f.mustReconcile()
		f.expectCondition("BootstrapTokenValid", metav1.ConditionTrue, "Valid")
	})
	t.Run("a tenant that refuses to revoke it", func(t *testing.T) {
		f := newFixture(t, ready()...)
		f.mustReconcile()
		f.join()
		f.fail = func(string, string, *corev1.Secret) error { return quota }
		f.failed("BootstrapTokenValid", metav1.ConditionUnknown, "Unknown", "revoke bootstrap token")
	})
	t.Run("but not a conflict, which is tried again at once", func(t *testing.T) {
		f := newFixture(t, ready()...)
		f.mustReconcile()
		f.fail = func(string, string, *corev1.Secret) error {
			return apierrors.NewConflict(corev1.Resource("secrets"), "a", errors.New("changed"))
		}
		f.clock.Step(time.Hour)
		if _, err := f.reconcile(); err == nil {
			t.Fatal("nothing failed")
		}
		f.expectCondition("BootstrapTokenValid", metav1.ConditionTrue, "Valid")
	})
}

func TestDataThatASecretCannotHold(t *testing.T) {
	objects := ready()
	config := objects[2].(*bootstrapv1.KOKConfig)
	for _, path := range []string{"/etc/a", "/etc/b", "/etc/c", "/etc/d"} {
		config.Spec.Files = append(config.Spec.Files, bootstrapv1.File{Path: path, Content: ptr.To(strings.Repeat("a", 1<<18))})
	}
	f := newFixture(t, objects...)
	f.mustReconcile()
	f.told("DataSecretAvailable", metav1.ConditionFalse, "InvalidSpec", "spec.files: with the files the bootstrap data have 14")
	f.told("DataSecretAvailable", metav1.ConditionFalse, "InvalidSpec", "a Secret holds 1048576 at most")
	if f.tokensCreated > 0 {
		t.Error("a token was made")
	}
}

// TestATokenWhoseIDIsTaken: ids are short, and another machine's token may have the same by chance.
func TestATokenWhoseIDIsTaken(t *testing.T) {
	f := newFixture(t, ready()...)
	var foreign *corev1.Secret
	f.fail = func(where, verb string, secret *corev1.Secret) error {
		if where != "tenant" || verb != "create" {
			return nil
		}
		f.fail = nil
		foreign = secret.DeepCopy()
		foreign.Data["token-secret"], foreign.Data["description"] = []byte("0123456789abcdef"), []byte("for another")
		return f.tenant.Create(t.Context(), foreign.DeepCopy())
	}
	f.mustReconcile()
	token, err := cloudinit.Token(f.data().Data["value"])
	if err != nil {
		t.Fatal(err)
	}
	if foreign == nil || token[:6] == string(foreign.Data["token-id"]) {
		t.Fatalf("the data has token %s, whose id is taken", token[:6])
	}
	held := map[string]string{}
	for _, secret := range f.tenantTokens() {
		held[string(secret.Data["token-id"])] = string(secret.Data["token-secret"]) + " " + string(secret.Data["description"])
	}
	want := map[string]string{string(foreign.Data["token-id"]): "0123456789abcdef for another", token[:6]: token[7:] + " for Machine team/worker-1"}
	if diff := cmp.Diff(want, held); diff != "" {
		t.Error(diff)
	}
	if id := f.config().Status.BootstrapToken.ID; id != token[:6] {
		t.Errorf("status names token %s", id)
	}
	f.expectCondition("Ready", metav1.ConditionTrue, "Ready")
}
