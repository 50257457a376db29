package keyrotation

import (
	"context"
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/secrets/secretstest"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenantprobes"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/tenantapi"
)

func header(text string) []byte {
	return []byte(base64.RawURLEncoding.EncodeToString([]byte(text)) + ".e30.c2ln")
}

func TestTheKeyOfATokenIsThatOfItsHeader(t *testing.T) {
	for name, test := range map[string]struct {
		token []byte
		want  string
	}{
		"a token":          {header(`{"alg":"ES256","kid":"key"}`), "key"},
		"without a key":    {header(`{"alg":"ES256"}`), ""},
		"no object":        {header(`"kid"`), ""},
		"no JSON":          {header(`{`), ""},
		"no base64":        {[]byte("%%.e30.c2ln"), ""},
		"an opaque token":  {[]byte("abcdef.0123456789abcdef"), ""},
		"an empty token":   {nil, ""},
		"a header alone":   {[]byte(base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","kid":"key"}`))), ""},
		"a key of no text": {header(`{"alg":"ES256","kid":7}`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := keyOfToken(test.token); got != test.want {
				t.Errorf("it is %q, want %q", got, test.want)
			}
		})
	}
}

// Tenants write their Secrets themselves.
func FuzzKeysOfTokens(f *testing.F) {
	f.Add(header(`{"alg":"ES256","kid":"key"}`))
	f.Add([]byte("a.b.c"))
	f.Fuzz(func(t *testing.T, token []byte) {
		if key := keyOfToken(token); len(key) > 3*len(token) {
			t.Errorf("a key of %d bytes in a token of %d", len(key), len(token))
		}
	})
}

// The last look left out names that were given up then. A person may take one back.
func TestTokensAreLookedForAnewWhenOtherNamesAreGivenUp(t *testing.T) {
	identity := func(givenUp ...string) string {
		api := (tenantprobes.Tenants{Guards: &tenantapi.Guards{}}).Of(&controlplanev1.KOKControlPlane{}, &pki.KeyMaterial{})
		return (&formerKeyProbe{api: api, of: "0123456789", givenUp: givenUp}).probe(rotation.Record{}, true).Identity
	}
	if first, again := identity("a"), identity("a"); first != again || first == identity("b") || first == identity() {
		t.Error("an earlier look counts")
	}
}

func TestOthersAreNamedInPlaceOfSecretsThatAreGivenUp(t *testing.T) {
	find := func(givenUp ...string) (found formerTokens) {
		check := &formerKeyProbe{keys: []string{"key"}, of: "0123456789", givenUp: givenUp}
		for i := range mostNamed + 2 {
			check.add(&found, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("token-%02d", i)}, Data: map[string][]byte{"token": header(`{"alg":"ES256","kid":"key"}`)},
			})
		}
		return found
	}
	if found := find(); len(found.secrets) != mostNamed || found.more != 2 || found.secrets[0] != "default/token-00" {
		t.Errorf("found are %+v", found)
	}
	found := find("secret/0123456789/default/token-00", "secret/9876543210/default/token-01")
	if len(found.secrets) != mostNamed || found.more != 1 || found.secrets[0] != "default/token-01" || found.secrets[mostNamed-1] != "default/token-10" {
		t.Errorf("after one was given up, found are %+v", found)
	}
}

// prober has one result of all probes; ended is false before the first one.
type prober struct {
	result probe.Result
	ended  bool
}

func (p prober) Probe(probe.Key, probe.Probe) (probe.Result, bool) { return p.result, p.ended }
func (p prober) Withdraw(probe.Key)                                {}

// rotated is the key material of a tenant whose key of a kind is in a phase.
func rotated(t *testing.T, kind string, phases ...rotation.Phase) *pki.KeyMaterial {
	t.Helper()
	clusters := secretstest.New(t)
	store := &pki.Store{Management: clusters.Access(clusters.Management), Host: clusters.Access(clusters.Host)}
	of := client.ObjectKey{Namespace: secretstest.Namespace, Name: "blue"}
	ensure := func() *pki.KeyMaterial {
		keys, err := store.Ensure(t.Context(), pki.Request{Cluster: of, UsedBy: func(context.Context) (string, error) { return "", nil }})
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	keys := ensure()
	for _, phase := range phases {
		if err := store.Rotate(t.Context(), of, keys, kind, rotation.Record{Asked: "2030-01-02T03:04:05Z", Phase: phase}); err != nil {
			t.Fatal(err)
		}
		keys = ensure()
	}
	return keys
}

func TestALookForTokensThatHasNotEndedIsNotGivenUp(t *testing.T) {
	keys := rotated(t, pki.ServiceAccount, rotation.Trusting, rotation.Using, rotation.Prepared)
	for name, test := range map[string]struct {
		prober prober
		want   rotation.Kind
	}{
		"the look has not ended": {prober{}, rotation.Wait},
		"the look failed":        {prober{probe.Result{Problem: "it does not answer"}, true}, rotation.Write},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			u := &run{
				Rotator: &Rotator{Prober: test.prober, Clock: clocktesting.NewFakePassiveClock(now), Tenants: tenantprobes.Tenants{Guards: &tenantapi.Guards{}}},
				of:      &Facts{ControlPlane: &controlplanev1.KOKControlPlane{}}, keys: keys,
			}
			state := rotation.State{Record: rotation.Record{
				Asked: "2030-01-02T03:04:05Z", Phase: rotation.Prepared, Since: now.Add(-2 * podTokensLife).UTC().Format(time.RFC3339),
			}, Complete: "2030-01-02T03:04:05Z"}
			if err := u.addTokens(t.Context(), &state, look{due: true}); err != nil {
				t.Fatal(err)
			}
			for _, need := range state.Needs {
				state.GivenUp = append(state.GivenUp, need.Name)
			}
			if got := rotation.Decide(state); len(state.Needs) != 1 || got.Kind != test.want {
				t.Errorf("of %+v it is decided %+v", state.Needs, got)
			}
		})
	}
}
