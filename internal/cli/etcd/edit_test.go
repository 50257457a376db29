package etcd

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// The controller writes status all the time, so that the control plane that a person agreed to is soon an older one.
func TestAnEditOfTheSpecGoesOnWhenOnlyOthersFieldsChanged(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(*controlplanev1.KOKControlPlane)
		fails     error
		survivor  string
	}{
		"nothing changed":    {meanwhile: func(*controlplanev1.KOKControlPlane) {}, survivor: "blue-etcd-data-1"},
		"status was written": {meanwhile: func(of *controlplanev1.KOKControlPlane) { of.Annotations = map[string]string{"a": "b"} }, survivor: "blue-etcd-data-1"},
		"somebody edited the spec": {meanwhile: func(of *controlplanev1.KOKControlPlane) {
			of.Generation++
			of.Spec.Etcd.Restore = &controlplanev1.EtcdRestoreSpec{Survivor: "blue-etcd-data-2"}
		}, fails: errEdited, survivor: "blue-etcd-data-2"},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := controlplanev1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			of := &controlplanev1.KOKControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "blue", Generation: 1}}
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(of).Build()
			key := client.ObjectKeyFromObject(of)
			get := func() *controlplanev1.KOKControlPlane {
				is := &controlplanev1.KOKControlPlane{}
				if err := c.Get(context.Background(), key, is); err != nil {
					t.Fatal(err)
				}
				return is
			}
			read, other := get(), get()
			if test.meanwhile(other); other.Annotations != nil || other.Generation > 1 {
				if err := c.Update(t.Context(), other); err != nil {
					t.Fatal(err)
				}
			}
			err := editSpec(t.Context(), c, read, func(spec *controlplanev1.KOKControlPlaneSpec) {
				spec.Etcd.Restore = &controlplanev1.EtcdRestoreSpec{Survivor: "blue-etcd-data-1"}
			})
			if !errors.Is(err, test.fails) {
				t.Errorf("it ends with %v, want %v", err, test.fails)
			}
			if got := get().Spec.Etcd.Restore; got == nil || got.Survivor != test.survivor {
				t.Errorf("the spec has %+v", got)
			}
		})
	}
}
