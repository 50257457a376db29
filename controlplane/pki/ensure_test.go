package pki

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/secrets/secretstest"
)

var managementSecrets = []string{"blue-ca", "blue-etcd", "blue-etcd-events", "blue-proxy", "blue-sa", "blue-encryption"}

func TestEnsureMakesBothCopies(t *testing.T) {
	w := newWorld(t)
	material := w.ensure()
	if len(material.Generated) != len(items) || len(material.Copied) != 0 {
		t.Errorf("Generated %v, Copied %v", material.Generated, material.Copied)
	}
	if n := w.Writes.Load(); n != int32(len(items))+1 {
		t.Errorf("took %d writes, want one for each Secret", n)
	}
	host := w.Get(w.Host, names.KeyMaterial("blue"))
	for _, it := range items {
		s := w.Get(w.Management, secret.Name("blue", it.purpose))
		if s.Type != clusterv1.ClusterSecretType || s.Labels[clusterv1.ClusterNameLabel] != "blue" || s.Labels[names.ManagedByLabel] != names.ManagedBy {
			t.Errorf("%s has type %s, labels %v", s.Name, s.Type, s.Labels)
		}
		if len(s.OwnerReferences) != 1 || s.OwnerReferences[0].UID != "uid-1" {
			t.Errorf("%s is owned by %v", s.Name, s.OwnerReferences)
		}
		if len(s.Data) != len(it.managementKeys) {
			t.Errorf("%s has %d data keys", s.Name, len(s.Data))
		}
		for i := range it.managementKeys {
			if string(s.Data[it.managementKeys[i]]) != string(host.Data[it.hostKeys[i]]) {
				t.Errorf("%s and the host copy differ", s.Name)
			}
		}
	}
	if len(host.OwnerReferences) != 0 {
		t.Errorf("the host copy is owned by %v", host.OwnerReferences)
	}
	w.settled()
}

func TestEnsureRestores(t *testing.T) {
	deletions := map[string]func(*world){
		"the host copy": func(w *world) { w.Delete(w.Host, names.KeyMaterial("blue")) },
		"all Secrets of the management cluster": func(w *world) {
			for _, name := range managementSecrets {
				w.Delete(w.Management, name)
			}
		},
		"a pair in the host copy": func(w *world) {
			w.Edit(w.Host, names.KeyMaterial("blue"), func(s *corev1.Secret) { delete(s.Data, CACert); delete(s.Data, CAKey) })
		},
		"half of a pair in the host copy": func(w *world) {
			w.Edit(w.Host, names.KeyMaterial("blue"), func(s *corev1.Secret) { delete(s.Data, EtcdCAKey) })
		},
		"half of a pair in the management cluster": func(w *world) {
			w.Edit(w.Management, "blue-sa", func(s *corev1.Secret) { delete(s.Data, secret.TLSKeyDataName) })
		},
		"the encryption configuration": func(w *world) {
			w.Edit(w.Host, names.KeyMaterial("blue"), func(s *corev1.Secret) { delete(s.Data, EncryptionFileName) })
		},
		"an edited encryption configuration": func(w *world) {
			w.Edit(w.Host, names.KeyMaterial("blue"), func(s *corev1.Secret) { s.Data[EncryptionFileName] = []byte("resources: []") })
		},
		"labels of the host copy": func(w *world) { w.Edit(w.Host, names.KeyMaterial("blue"), func(s *corev1.Secret) { s.Labels = nil }) },
		"the owner of a Secret":   func(w *world) { w.Edit(w.Management, "blue-ca", func(s *corev1.Secret) { s.OwnerReferences = nil }) },
		"the labels of a Secret":  func(w *world) { w.Edit(w.Management, "blue-ca", func(s *corev1.Secret) { s.Labels = nil }) },
		"the former UID of an owner": func(w *world) {
			w.Edit(w.Management, "blue-ca", func(s *corev1.Secret) { s.OwnerReferences[0].UID = "old" })
		},
	}
	for _, name := range managementSecrets {
		deletions[name] = func(w *world) { w.Delete(w.Management, name) }
	}
	for name, deletion := range deletions {
		for _, cacheMisses := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/cache misses=%t", name, cacheMisses), func(t *testing.T) {
				w := newWorld(t)
				before := w.ensure()
				hostBefore := w.Get(w.Host, names.KeyMaterial("blue"))
				managementBefore := w.Get(w.Management, "blue-ca")
				w.running, w.CacheMisses, w.asked = true, cacheMisses, 0
				deletion(w)
				after := w.ensure()
				same(t, before, after)
				if len(after.Generated) != 0 {
					t.Errorf("Generated %v", after.Generated)
				}
				if w.asked != 0 {
					t.Error("asked whether it may generate although a copy was there")
				}
				hostAfter, managementAfter := w.Get(w.Host, names.KeyMaterial("blue")), w.Get(w.Management, "blue-ca")
				if !equalSecret(hostBefore, hostAfter) || !equalSecret(managementBefore, managementAfter) {
					t.Error("what is there now is not what was there before")
				}
				w.settled()
			})
		}
	}
}

func equalSecret(a, b *corev1.Secret) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	a.ResourceVersion, b.ResourceVersion = "", ""
	return apiequality.Semantic.DeepEqual(a, b)
}

func TestEnsureBothCopiesMissing(t *testing.T) {
	for _, it := range items {
		name := secret.Name("blue", it.purpose)
		remove := func(w *world) {
			w.Delete(w.Management, name)
			w.Edit(w.Host, names.KeyMaterial("blue"), func(s *corev1.Secret) {
				for _, key := range it.hostKeys {
					delete(s.Data, key)
				}
			})
		}
		t.Run(it.name+" is made anew while nothing runs", func(t *testing.T) {
			w := newWorld(t)
			w.ensure()
			remove(w)
			if material := w.ensure(); !slices.Equal(material.Generated, []string{it.name}) {
				t.Errorf("Generated %v", material.Generated)
			}
			w.settled()
		})
		t.Run(it.name+" is lost once components run", func(t *testing.T) {
			w := newWorld(t)
			w.ensure()
			remove(w)
			w.running = true
			writes := w.Writes.Load()
			_, err := w.store.Ensure(t.Context(), w.request())
			var lost *LostError
			if !errors.As(err, &lost) {
				t.Fatalf("err = %v, want LostError", err)
			}
			for _, part := range append([]string{"team/" + name, "team/" + names.KeyMaterial("blue"), "restore", it.name}, it.hostKeys...) {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not name %q", err, part)
				}
			}
			if n := w.Writes.Load(); n != writes {
				t.Errorf("wrote %d times", n-writes)
			}
		})
	}
	t.Run("restoring one copy from a backup ends the loss", func(t *testing.T) {
		w := newWorld(t)
		before := w.ensure()
		w.running = true
		backup := w.Get(w.Host, names.KeyMaterial("blue"))
		for _, name := range managementSecrets {
			w.Delete(w.Management, name)
		}
		w.Delete(w.Host, names.KeyMaterial("blue"))
		if _, err := w.store.Ensure(t.Context(), w.request()); err == nil {
			t.Fatal("want LostError")
		}
		backup.ResourceVersion = ""
		if err := w.Host.Create(t.Context(), backup); err != nil {
			t.Fatal(err)
		}
		same(t, before, w.ensure())
		w.settled()
	})
	t.Run("a failing question generates nothing", func(t *testing.T) {
		w := newWorld(t)
		request := w.request()
		request.UsedBy = func(context.Context) (string, error) { return "", errors.New("no answer") }
		if _, err := w.store.Ensure(t.Context(), request); err == nil || w.Writes.Load() != 0 {
			t.Fatalf("err = %v, %d writes", err, w.Writes.Load())
		}
	})
}

func TestEnsureUsesAPersonsOwnSecret(t *testing.T) {
	source := newWorld(t)
	source.ensure()
	w := newWorld(t)
	own := w.Create(w.Management, "blue-ca", source.Get(source.Management, "blue-ca").Data)
	material := w.ensure()
	if string(material.ClusterCA.Bundle) != string(own.Data["tls.crt"]) {
		t.Error("another CA is used")
	}
	if after := w.Get(w.Management, "blue-ca"); after.ResourceVersion != own.ResourceVersion {
		t.Error("the person's Secret was written")
	}
	if slices.Contains(material.Generated, string(ClusterCA)) || len(material.Copied) != 0 {
		t.Errorf("Generated %v, Copied %v", material.Generated, material.Copied)
	}
	w.CacheMisses = true
	w.settled()
}

// Whoever is killed before any of the writes leaves what the next one completes with the same keys.
func TestEnsureConvergesAfterAKillBeforeAnyWrite(t *testing.T) {
	for n := range int32(len(items) + 1) {
		t.Run(fmt.Sprintf("killed before write %d of creation", n+1), func(t *testing.T) {
			w := newWorld(t)
			w.FailFrom.Store(n)
			if _, err := w.store.Ensure(t.Context(), w.request()); !errors.Is(err, secretstest.ErrKilled) {
				t.Fatalf("err = %v", err)
			}
			survivors := w.survivors()
			if len(survivors) != int(n) {
				t.Fatalf("%d Secrets after %d writes", len(survivors), n)
			}
			w.FailFrom.Store(-1)
			material := w.ensure()
			for name, uid := range survivors {
				if now := w.Get(w.Management, name); string(now.Data[firstKey(now)]) != uid {
					t.Errorf("%s was made anew", name)
				}
			}
			w.running = true
			same(t, material, w.ensure())
			w.settled()
		})
	}
	for n := range int32(len(items)) {
		t.Run(fmt.Sprintf("killed before write %d of a restoration", n+1), func(t *testing.T) {
			w := newWorld(t)
			before := w.ensure()
			w.running = true
			for _, name := range managementSecrets {
				w.Delete(w.Management, name)
			}
			w.FailFrom.Store(w.Writes.Load() + n)
			if _, err := w.store.Ensure(t.Context(), w.request()); !errors.Is(err, secretstest.ErrKilled) {
				t.Fatalf("err = %v", err)
			}
			w.FailFrom.Store(-1)
			same(t, before, w.ensure())
			w.settled()
		})
	}
}

// survivors are the Secrets of the management cluster with one of their values.
func (w *world) survivors() map[string]string {
	list := &corev1.SecretList{}
	if err := w.Management.List(w.t.Context(), list); err != nil {
		w.t.Fatal(err)
	}
	out := map[string]string{}
	for i := range list.Items {
		out[list.Items[i].Name] = string(list.Items[i].Data[firstKey(&list.Items[i])])
	}
	return out
}

func firstKey(s *corev1.Secret) string {
	if _, ok := s.Data[EncryptionKey]; ok {
		return EncryptionKey
	}
	return secret.TLSKeyDataName
}
