package secrets_test

import (
	"bytes"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/secrets"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/secrets/secretstest"
)

const name = "blue"

var key = client.ObjectKey{Namespace: secretstest.Namespace, Name: name}

// wants has a Secret with this value, beside what else it has.
func wants(value string) func(*corev1.Secret) error {
	return func(secret *corev1.Secret) error {
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data["wanted"] = []byte(value)
		return nil
	}
}

func TestASecretIsWrittenOnlyWhenItDiffers(t *testing.T) {
	for what, test := range map[string]struct {
		present     map[string][]byte
		cacheMisses bool
		changed     bool
	}{
		"there is none":                         {changed: true},
		"it has another value":                  {present: map[string][]byte{"wanted": []byte("former")}, changed: true},
		"it is as wanted":                       {present: map[string][]byte{"wanted": []byte("a")}},
		"it is as wanted, and not in a cache":   {present: map[string][]byte{"wanted": []byte("a")}, cacheMisses: true},
		"it differs, and is not in a cache":     {present: map[string][]byte{"more": []byte("b")}, cacheMisses: true, changed: true},
		"it is as wanted, and has other values": {present: map[string][]byte{"wanted": []byte("a"), "more": []byte("b")}},
	} {
		c := secretstest.New(t)
		if test.present != nil {
			c.Create(c.Host, name, test.present)
		}
		c.CacheMisses = test.cacheMisses
		changed, err := c.Access(c.Host).Settle(t.Context(), key, wants("a"))
		if err != nil || changed != test.changed || (c.Writes.Load() > 0) != test.changed {
			t.Errorf("%s: changed %t with %d writes: %v", what, changed, c.Writes.Load(), err)
		}
		data := c.Get(c.Host, name).Data
		if string(data["wanted"]) != "a" || !bytes.Equal(data["more"], test.present["more"]) {
			t.Errorf("%s: it has %q", what, data)
		}
	}
}

// What another writer wrote meanwhile stays.
func TestWhoIsSlowerDecidesAgain(t *testing.T) {
	c := secretstest.New(t)
	c.BeforeCreate = func(client.Object) {
		c.BeforeCreate = nil
		c.Create(c.Host, name, map[string][]byte{"other": []byte("b")})
	}
	c.BeforeUpdate = func(client.Object) {
		c.BeforeUpdate = nil
		c.Edit(c.Host, name, func(s *corev1.Secret) { s.Data["another"] = []byte("c") })
	}
	changed, err := c.Access(c.Host).Settle(t.Context(), key, wants("a"))
	if data := c.Get(c.Host, name).Data; err != nil || !changed || len(data) != 3 {
		t.Errorf("it is %t that it changed: it has %q: %v", changed, data, err)
	}
}

func TestAWriteIsGivenUpWhenOthersAreAlwaysFaster(t *testing.T) {
	c := secretstest.New(t)
	c.Create(c.Host, name, nil)
	c.BeforeUpdate = func(client.Object) {
		c.Edit(c.Host, name, func(s *corev1.Secret) { s.Data = map[string][]byte{"other": append(s.Data["other"], 'x')} })
	}
	if _, err := c.Access(c.Host).Settle(t.Context(), key, wants("a")); !errors.Is(err, secrets.ErrRace) {
		t.Errorf("the error is %v", err)
	}
}

func TestOwnKeepsWhatOthersSet(t *testing.T) {
	owner := metav1.OwnerReference{APIVersion: "a.example.org/v2", Kind: "A", Name: "a", UID: "new"}
	for what, test := range map[string]struct {
		before []metav1.OwnerReference
		want   []types.UID
	}{
		"without an owner":                    {nil, []types.UID{"new"}},
		"with an older UID of the same owner": {[]metav1.OwnerReference{{APIVersion: "a.example.org/v1", Kind: "A", Name: "a", UID: "old"}}, []types.UID{"new"}},
		"with another owner":                  {[]metav1.OwnerReference{{APIVersion: "b.example.org/v1", Kind: "A", Name: "a", UID: "other"}}, []types.UID{"other", "new"}},
	} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"mine": "yes"}, OwnerReferences: test.before}}
		secrets.Own(secret, names.ComponentLabels(key, names.PKI), &owner)
		var got []types.UID
		for _, reference := range secret.OwnerReferences {
			got = append(got, reference.UID)
		}
		if len(got) != len(test.want) || got[0] != test.want[0] || got[len(got)-1] != test.want[len(got)-1] {
			t.Errorf("%s: the owners are %v, want %v", what, got, test.want)
		}
		if secret.Labels["mine"] != "yes" || !secrets.Ours(secret) {
			t.Errorf("%s: the labels are %v", what, secret.Labels)
		}
	}
}

func TestFilesAreAllThatTheirSecretHas(t *testing.T) {
	c := secretstest.New(t)
	access := c.Access(c.Host)
	of := secrets.Files{Cluster: key, Name: name, Component: names.EtcdData}
	if files, err := access.ReadFiles(t.Context(), of); err != nil || files != nil {
		t.Fatalf("without a Secret there are %q: %v", files, err)
	}
	for _, files := range []map[string][]byte{{"a": []byte("1")}, {"b": []byte("2")}} {
		if err := access.WriteFiles(t.Context(), of, files); err != nil {
			t.Fatal(err)
		}
		got, err := access.ReadFiles(t.Context(), of)
		if err != nil || len(got) != 1 || !secrets.Ours(c.Get(c.Host, name)) {
			t.Errorf("there are %q: %v", got, err)
		}
	}
	for range 2 {
		if err := access.DeleteFiles(t.Context(), of); err != nil {
			t.Error(err)
		}
		if files, err := access.ReadFiles(t.Context(), of); err != nil || files != nil {
			t.Errorf("after the deletion there are %q: %v", files, err)
		}
	}
}
