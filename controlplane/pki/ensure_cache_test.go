package pki

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
)

// A cache that is behind may show anything that once was: nothing may be written, refused or made
// because of it.
func TestEnsureDecidesOnALiveReading(t *testing.T) {
	foreign := newWorld(t)
	foreign.ensure()
	for name, age := range map[string]func(name string, s *corev1.Secret){
		"other keys": func(name string, s *corev1.Secret) {
			if name == "blue-ca" {
				s.Data = foreign.Get(foreign.Management, name).Data
			}
		},
		"damaged keys": func(_ string, s *corev1.Secret) {
			for key := range s.Data {
				s.Data[key] = []byte("damaged")
			}
		},
		"no keys":       func(_ string, s *corev1.Secret) { s.Data = nil },
		"no labels":     func(_ string, s *corev1.Secret) { s.Labels = nil },
		"older owners":  func(_ string, s *corev1.Secret) { s.OwnerReferences = nil },
		"an older file": func(_ string, s *corev1.Secret) { delete(s.Data, EncryptionFileName) },
	} {
		for _, running := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/running=%t", name, running), func(t *testing.T) {
				w := newWorld(t)
				material := w.ensure()
				stale := fake.NewClientBuilder().Build()
				for _, name := range append(slices.Clone(managementSecrets), names.KeyMaterial("blue")) {
					from := w.Management
					if name == names.KeyMaterial("blue") {
						from = w.Host
					}
					secret := w.Get(from, name)
					age(name, secret)
					secret.ResourceVersion = ""
					if err := stale.Create(t.Context(), secret); err != nil {
						t.Fatal(err)
					}
				}
				w.store.Management.Cached, w.store.Host.Cached, w.running, w.asked = stale, stale, running, 0
				same(t, material, w.ensure())
				w.settled()
				if w.asked != 0 {
					t.Error("asked whether it may generate")
				}
			})
		}
	}
}

// A cache that has an earlier phase is no faster writer.
func TestARotationGoesOnWhileACacheIsLate(t *testing.T) {
	w := newWorld(t)
	w.rotate(asked, rotation.Trusting)
	late := w.Get(w.Host, names.KeyMaterial("blue"))
	late.ResourceVersion = ""
	material := w.rotate(asked, rotation.Using)
	w.store.Host.Cached = fake.NewClientBuilder().WithObjects(late).Build()
	if err := w.store.Rotate(t.Context(), cluster, material, ServiceAccount, rotation.Record{Asked: asked, Phase: rotation.Prepared}); err != nil {
		t.Fatal(err)
	}
	if r := w.ensure().Rotation(ServiceAccount); r.Phase != rotation.Prepared {
		t.Errorf("it is %s", r.Phase)
	}
}
