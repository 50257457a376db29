package pki

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// The other manager creates a Secret between our reading and our creation of it.
func TestEnsureTakesTheKeyOfWhoeverWasFaster(t *testing.T) {
	other := newWorld(t)
	other.ensure()
	for _, name := range append(slices.Clone(managementSecrets), names.KeyMaterial("blue")) {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			raced := false
			w.BeforeCreate = func(o client.Object) {
				if o.GetName() != name || raced {
					return
				}
				raced = true
				rival := o.DeepCopyObject().(*corev1.Secret)
				target := w.Host
				if name != names.KeyMaterial("blue") {
					rival.Data, target = other.Get(other.Management, name).Data, w.Management
				}
				rival.UID = types.UID("rival")
				if err := target.Create(t.Context(), rival); err != nil {
					t.Fatal(err)
				}
			}
			material := w.ensure()
			if !raced {
				t.Fatal("no race happened")
			}
			if name != names.KeyMaterial("blue") {
				present := w.Get(w.Management, name)
				if present.UID != "rival" || string(present.Data[firstKey(present)]) != string(other.Get(other.Management, name).Data[firstKey(present)]) {
					t.Error("the faster writer's key was replaced")
				}
			}
			w.BeforeCreate = nil
			same(t, material, w.ensure())
			w.settled()
		})
	}
}

// Someone else writes or deletes what we are about to complete.
func TestEnsureReadsAgainAfterALostUpdate(t *testing.T) {
	host := names.KeyMaterial("blue")
	for name, rival := range map[string]func(*world){
		"it was edited": func(w *world) {
			w.Edit(w.Host, host, func(s *corev1.Secret) { s.Annotations = map[string]string{"edited": "yes"} })
		},
		"it was deleted": func(w *world) { w.Delete(w.Host, host) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			before := w.ensure()
			w.running = true
			w.Edit(w.Host, host, func(s *corev1.Secret) { delete(s.Data, CACert); delete(s.Data, CAKey) })
			raced := false
			w.BeforeUpdate = func(client.Object) {
				if !raced {
					raced = true
					rival(w)
				}
			}
			same(t, before, w.ensure())
			if !raced {
				t.Fatal("no race happened")
			}
			if name == "it was edited" && w.Get(w.Host, host).Annotations["edited"] != "yes" {
				t.Error("the other's edit was undone")
			}
			w.settled()
		})
	}
}
