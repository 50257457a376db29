package controllers

import (
	"bytes"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/conditions"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/cloudinit"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/tokens"
)

func TestADeletedDataSecret(t *testing.T) {
	t.Run("is made again before it was used", func(t *testing.T) {
		f := newFixture(t, ready()...)
		f.mustReconcile()
		if err := f.management.Delete(t.Context(), f.data()); err != nil {
			t.Fatal(err)
		}
		former := f.tenantTokens()[0].Name
		f.mustReconcile()
		f.data()
		f.expectCondition("Ready", metav1.ConditionTrue, "Ready")
		if tokens := f.tenantTokens(); len(tokens) != 1 || tokens[0].Name == former {
			t.Errorf("the tenant accepts %d tokens, the former one among them: %s", len(tokens), former)
		}
	})
	t.Run("is not made again after it was used", func(t *testing.T) {
		f := newFixture(t, ready()...)
		f.mustReconcile()
		f.changeMachine(func(m *clusterv1.Machine) { m.Spec.ProviderID = "idc://host-1" })
		if err := f.management.Delete(t.Context(), f.data()); err != nil {
			t.Fatal(err)
		}
		f.mustReconcile()
		if err := f.management.Get(t.Context(), key, &corev1.Secret{}); !apierrors.IsNotFound(err) {
			t.Errorf("it was made again: %v", err)
		}
		f.expectCondition("DataSecretAvailable", metav1.ConditionFalse, "DataSecretLost")
	})
	t.Run("is not missed once the machine has joined", func(t *testing.T) {
		f := newFixture(t, ready()...)
		f.mustReconcile()
		f.join()
		if err := f.management.Delete(t.Context(), f.data()); err != nil {
			t.Fatal(err)
		}
		f.mustReconcile()
		f.expectCondition("Ready", metav1.ConditionTrue, "Ready")
		if len(f.tenantTokens()) != 0 {
			t.Error("the token is still there")
		}
	})
}

func TestADataSecretWithoutItsLabelIsNotTakenForDeleted(t *testing.T) {
	for name, test := range map[string]struct {
		before func(*fixture)
		want   string
	}{
		"before it was used":           {func(*fixture) {}, "Valid"},
		"after it was used":            {func(f *fixture) { f.changeMachine(func(m *clusterv1.Machine) { m.Spec.ProviderID = "idc://host-1" }) }, "Valid"},
		"after the machine has joined": {func(f *fixture) { f.join() }, "Revoked"},
		"when status was lost meanwhile": {func(f *fixture) {
			config := f.config()
			config.Status = bootstrapv1.KOKConfigStatus{}
			if err := f.management.Status().Update(f.t.Context(), config); err != nil {
				f.t.Fatal(err)
			}
		}, "Valid"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, ready()...)
			f.mustReconcile()
			before := f.data()
			stripped := before.DeepCopy()
			stripped.Labels = map[string]string{"mine": "too"}
			if err := f.management.Update(t.Context(), stripped); err != nil {
				t.Fatal(err)
			}
			test.before(f)
			f.mustReconcile()
			after := f.data()
			if after.Labels[clusterv1.ClusterNameLabel] != "blue" || after.Labels["mine"] != "too" || !metav1.IsControlledBy(after, f.config()) {
				t.Errorf("it has labels %v, owners %v", after.Labels, after.OwnerReferences)
			}
			if !bytes.Equal(before.Data["value"], after.Data["value"]) || f.tokensCreated != 1 {
				t.Errorf("the data changed, or %d tokens were made", f.tokensCreated)
			}
			f.expectCondition("DataSecretAvailable", metav1.ConditionTrue, "Available")
			if reason := conditions.GetReason(f.config(), "BootstrapTokenValid"); reason != test.want {
				t.Errorf("the token is %s", reason)
			}
		})
	}
	t.Run("but another's Secret is", func(t *testing.T) {
		f := newFixture(t, ready()...)
		f.mustReconcile()
		if err := f.management.Delete(t.Context(), f.data()); err != nil {
			t.Fatal(err)
		}
		if err := f.management.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}); err != nil {
			t.Fatal(err)
		}
		f.mustReconcile()
		f.expectCondition("DataSecretAvailable", metav1.ConditionFalse, "DataSecretConflict")
	})
}

func TestADataSecretWithoutAnOwner(t *testing.T) {
	strip := func(f *fixture) *corev1.Secret {
		f.t.Helper()
		stripped := f.data()
		stripped.OwnerReferences = nil
		if err := f.management.Update(f.t.Context(), stripped); err != nil {
			f.t.Fatal(err)
		}
		return stripped
	}
	t.Run("is the config's again when its data was handed out", func(t *testing.T) {
		f := newFixture(t, ready()...)
		f.mustReconcile()
		before := strip(f)
		f.mustReconcile()
		if after := f.data(); !metav1.IsControlledBy(after, f.config()) || !bytes.Equal(before.Data["value"], after.Data["value"]) {
			t.Errorf("it has owners %v, or other data", after.OwnerReferences)
		}
		f.expectCondition("DataSecretAvailable", metav1.ConditionTrue, "Available")
	})
	t.Run("is another's while nothing was handed out", func(t *testing.T) {
		f := newFixture(t, ready()...)
		if err := f.management.Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{clusterv1.ClusterNameLabel: "blue"}},
			Type:       clusterv1.ClusterSecretType,
		}); err != nil {
			t.Fatal(err)
		}
		f.mustReconcile()
		f.expectCondition("DataSecretAvailable", metav1.ConditionFalse, "DataSecretConflict")
	})
	t.Run("is another's when it is of another Cluster", func(t *testing.T) {
		f := newFixture(t, ready()...)
		f.mustReconcile()
		foreign := strip(f)
		foreign.Labels[clusterv1.ClusterNameLabel] = "green"
		if err := f.management.Update(t.Context(), foreign); err != nil {
			t.Fatal(err)
		}
		f.mustReconcile()
		if after := f.data(); len(after.OwnerReferences) > 0 {
			t.Errorf("it has owners %v", after.OwnerReferences)
		}
	})
}

func TestBootstrapDataTrustsThePresentCAsUntilItIsUsed(t *testing.T) {
	former, next := []byte("-----BEGIN CERTIFICATE-----\n"), []byte("-----BEGIN CERTIFICATE-----\nnext\n")
	for name, test := range map[string]struct {
		before  func(*fixture)
		follows bool
	}{
		"before it was used":           {func(*fixture) {}, true},
		"after it was used":            {func(f *fixture) { f.changeMachine(func(m *clusterv1.Machine) { m.Spec.ProviderID = "idc://host-1" }) }, false},
		"after the machine has joined": {func(f *fixture) { f.join() }, false},
		"when a person names another Secret": {func(f *fixture) {
			mine := f.data()
			mine.Name, mine.ResourceVersion, mine.OwnerReferences = "mine", "", nil
			if err := f.management.Create(f.t.Context(), mine); err != nil {
				f.t.Fatal(err)
			}
			config := f.config()
			config.Status.DataSecretName = "mine"
			if err := f.management.Status().Update(f.t.Context(), config); err != nil {
				f.t.Fatal(err)
			}
		}, false},
		// The controller does not ask the tenant for it.
		"while the tenant is away": {func(f *fixture) { f.reconciler.Tenants = clustercache.NewFakeEmptyClusterCache() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, ready()...)
			f.mustReconcile()
			before, token := f.data(), f.tenantTokens()[0]
			test.before(f)
			f.rotateCA(func(data map[string][]byte) { data["trusted.crt"] = slices.Concat(former, next) })
			f.mustReconcile()
			f.rotateCA(func(data map[string][]byte) { data["tls.crt"], data["trusted.crt"] = next, nil })
			f.mustReconcile()
			after := f.data()
			want := before.Data["value"]
			if test.follows {
				var err error
				if want, err = cloudinit.Trust(want, next); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(after.Data["value"], want) || test.follows == bytes.Equal(want, before.Data["value"]) {
				t.Error("the bootstrap data trusts other CAs")
			}
			if kept, err := cloudinit.Token(after.Data["value"]); err != nil || tokens.ID(kept) != string(token.Data["token-id"]) {
				t.Errorf("it has another token: %v", err)
			}
			written := after.ResourceVersion
			f.mustReconcile()
			if f.data().ResourceVersion != written {
				t.Error("it was written again")
			}
		})
	}
}
