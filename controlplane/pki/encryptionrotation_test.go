package pki

import (
	"bytes"
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
)

// configurations are the encryption configurations in the host cluster's copy: their keys as "name=key" in their order, by data key.
func (w *world) configurations() map[string][]string {
	w.t.Helper()
	all := map[string][]string{}
	for name, content := range w.Get(w.Host, hostCopy).Data {
		if strings.HasPrefix(name, "encryption-configuration") {
			all[name] = keysOf(w.t, content)
		}
	}
	return all
}

func keysOf(t *testing.T, configuration []byte) (keys []string) {
	t.Helper()
	parsed := apiserverv1.EncryptionConfiguration{}
	if err := yaml.UnmarshalStrict(configuration, &parsed); err != nil {
		t.Fatal(err)
	}
	for _, key := range parsed.Resources[0].Providers[0].Secretbox.Keys {
		keys = append(keys, key.Name+"="+key.Secret)
	}
	return keys
}

func named(name string, key []byte) string {
	return name + "=" + base64.StdEncoding.EncodeToString(key)
}

// The file that pods have in a phase is there before they mount it, and as long as pods of the phase before have theirs. Its keys are
// told by its name.
func TestEachPhaseHasItsEncryptionConfigurations(t *testing.T) {
	w := newWorld(t)
	born := w.ensure().EncryptionKey
	w.running = true
	former := []string{named("key1", born), named(encryptionKeyName(born), born)}
	if got := w.configurations(); len(got) != 1 || !slices.Equal(got["encryption-configuration.yaml"], former) {
		t.Fatalf("before a rotation there are %v", got)
	}
	underWay := rotation.Record{}.UnderWay()
	for _, phase := range phases {
		w.rotateKindOn(Encryption, asked, phase)
		material := w.ensure()
		r := material.Rotation(Encryption)
		key, file := r.Key["encryption-key"], r.File()
		next := []string{named("key-"+file, key)}
		want := map[string][]string{
			"encryption-configuration.yaml":                         former,
			"encryption-configuration-first-" + file + ".yaml":      slices.Concat(former, next),
			"encryption-configuration-" + file + "-first" + ".yaml": slices.Concat(next, former),
			"encryption-configuration-" + file + ".yaml":            next,
		}
		if phase == rotation.Over {
			want = map[string][]string{
				"encryption-configuration.yaml":              {named("key1", key), named("key-"+file, key)},
				"encryption-configuration-" + file + ".yaml": next,
			}
		}
		if got := w.configurations(); !maps.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%s: the files are %v, want %v", phase, got, want)
		}
		if replaced := !bytes.Equal(w.Get(w.Management, "blue-encryption").Data["encryption-key"], born); replaced != (phase == rotation.Over) {
			t.Errorf("%s: it is %t that Cluster API's Secret has the new key", phase, replaced)
		}
		underWay = underWay || r.UnderWay()
		w.settled()
	}
	if !underWay || w.has(born) {
		t.Error("the former key is there")
	}

	// The next rotation has files of keys that rotations made alone.
	before := w.ensure().Rotation(Encryption)
	w.rotateKindOn(Encryption, "2026-03-05T05:06:07Z", rotation.Trusting)
	r := w.ensure().Rotation(Encryption)
	got := slices.Sorted(maps.Keys(w.configurations()))
	want := slices.Sorted(slices.Values([]string{
		"encryption-configuration.yaml", EncryptionFile(before.File()), EncryptionFile(before.File(), r.File()), EncryptionFile(r.File(), before.File()), EncryptionFile(r.File()),
	}))
	if !slices.Equal(got, want) {
		t.Errorf("the files are %v, want %v", got, want)
	}
	if keys := w.configurations()[EncryptionFile(before.File(), r.File())]; len(keys) != 2 || !strings.HasPrefix(keys[0], "key-"+before.File()+"=") {
		t.Errorf("the keys are %v", keys)
	}
}

func (w *world) rotateKindOn(kind, request string, phase rotation.Phase) {
	w.t.Helper()
	if err := w.store.Rotate(w.t.Context(), cluster, w.ensure(), kind, rotation.Record{Asked: request, Phase: phase}); err != nil {
		w.t.Fatal(err)
	}
	w.ensure()
}

// Snapshots are of the former key while something in etcd may need it, and of the new one from then on. Whoever has the bundle that is
// stored beside them reads the snapshots and all that is in etcd.
func TestSnapshotsAndTheirBundleHaveTheKeysOfThePhase(t *testing.T) {
	w := newWorld(t)
	born := w.ensure()
	_, _, bornID, err := born.SnapshotKeys()
	if err != nil {
		t.Fatal(err)
	}
	for _, phase := range phases {
		w.rotateKindOn(Encryption, asked, phase)
		material := w.ensure()
		dropped := phase == rotation.Dropping || phase == rotation.Over
		hmac, identity, id, err := material.SnapshotKeys()
		if err != nil {
			t.Fatal(err)
		}
		if (id != bornID) != dropped {
			t.Errorf("%s: it is %t that snapshots have the ID of the former key", phase, id == bornID)
		}
		restored := throughBundle(t, material)
		if h, i, _, err := restored.SnapshotKeys(); err != nil || !bytes.Equal(h, hmac) || i.String() != identity.String() {
			t.Errorf("%s: whoever has the bundle cannot read the snapshots: %v", phase, err)
		}
		// A tenant is made with the keys of the bundle.
		other := newWorld(t)
		for _, secret := range ManagementSecrets(cluster, restored) {
			if err := other.Management.Create(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
		}
		other.ensure()
		keys, r := other.configurations()["encryption-configuration.yaml"], material.Rotation(Encryption)
		want := []string{named(encryptionKeyName(born.EncryptionKey), born.EncryptionKey), named("key1", born.EncryptionKey), named("key-"+r.File(), r.Key["encryption-key"])}
		if dropped {
			want = want[2:]
		}
		for _, key := range want {
			if !slices.Contains(keys, key) {
				t.Errorf("%s: a tenant of the bundle does not read what %.14s… encrypted", phase, key)
			}
		}
		if dropped && (slices.Contains(keys, named("key1", born.EncryptionKey)) || other.has(born.EncryptionKey)) {
			t.Errorf("%s: the bundle has the former key", phase)
		}
		// It rotates in its turn.
		got := other.rotateKind(Encryption, asked, rotation.Using)
		file := got.Rotation(Encryption).File()
		if using := other.configurations()[EncryptionFile(file, "")]; len(using) < 2 || !strings.HasPrefix(using[0], "key-"+file+"=") || !slices.Contains(using, want[len(want)-1]) {
			t.Errorf("%s: a tenant of the bundle, amid its own rotation, reads by %d keys", phase, len(using))
		}
	}
}

// All kinds rotate at once, and each has its own record.
func TestAllKindsRotateSideBySide(t *testing.T) {
	w := newWorld(t)
	born := w.ensure()
	w.running = true
	for _, phase := range phases {
		material := w.ensure()
		for _, of := range rotating {
			if err := w.store.Rotate(t.Context(), cluster, material, of.kind, rotation.Record{Asked: asked, Phase: phase}); err != nil {
				t.Fatal(err)
			}
		}
		after := w.ensure()
		for _, of := range rotating {
			if r := after.Rotation(of.kind); r == nil || r.Phase != phase {
				t.Fatalf("%s: the %s is at %+v", phase, of.kind, r)
			}
		}
		w.settled()
	}
	if w.has(born.EncryptionKey) || w.has(born.ServiceAccountKey) || w.has(born.FrontProxyCA.Bundle) {
		t.Error("a former key is there")
	}
	list := &corev1.SecretList{}
	if err := w.Management.List(t.Context(), list, client.InNamespace(cluster.Namespace)); err != nil {
		t.Fatal(err)
	}
	if data := w.Get(w.Management, rotations).Data; len(data) != len(rotating) {
		t.Errorf("the Secret of rotations has %v", slices.Sorted(maps.Keys(data)))
	}
}
