package tokens

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

const token = "abcdef.0123456789abcdef"

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestNewTokensAreValidAndDiffer(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		made, err := New()
		if err != nil {
			t.Fatal(err)
		}
		if !bootstraputil.IsValidBootstrapToken(made) || seen[made] || len(ID(made)) != 6 {
			t.Fatalf("token %q", made)
		}
		seen[made] = true
	}
}

func live(t *testing.T, tenant client.Client) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	if err := tenant.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "bootstrap-token-abcdef"}, secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

func TestEnsure(t *testing.T) {
	tenant := fake.NewClientBuilder().Build()
	for _, expiration := range []time.Time{noon, noon.Add(time.Hour)} {
		if err := Ensure(t.Context(), tenant, token, "for a test", expiration); err != nil {
			t.Fatal(err)
		}
		data := live(t, tenant).Data
		if string(data["expiration"]) != expiration.Format(time.RFC3339) || string(data["token-secret"]) != "0123456789abcdef" || string(data["auth-extra-groups"]) != Group {
			t.Errorf("expires %s, groups %s", data["expiration"], data["auth-extra-groups"])
		}
	}
	t.Run("refuses an id that is another token's", func(t *testing.T) {
		before := live(t, tenant)
		if err := Ensure(t.Context(), tenant, "abcdef.fedcba9876543210", "", noon); !errors.Is(err, ErrTaken) {
			t.Errorf("err = %v", err)
		}
		if live(t, tenant).ResourceVersion != before.ResourceVersion {
			t.Error("the other token was changed")
		}
	})
}

func TestRevoke(t *testing.T) {
	tenant := fake.NewClientBuilder().Build()
	if err := Ensure(t.Context(), tenant, token, "", noon); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"once", "again"} {
		if err := Revoke(t.Context(), tenant, "abcdef"); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	list := &corev1.SecretList{}
	if err := tenant.List(t.Context(), list); err != nil || len(list.Items) != 0 {
		t.Errorf("%d tokens are left, %v", len(list.Items), err)
	}
}
