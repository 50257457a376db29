package controllers

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
)

// There are tens of thousands of some kinds, and nobody reads who wrote which field.
func TestTheCacheKeepsNoManagedFields(t *testing.T) {
	for _, object := range []client.Object{&corev1.Secret{}, &clusterv1.Cluster{}, &clusterv1.Machine{}, &bootstrapv1.KOKConfig{}, &bootstrapv1.KOKSoftware{}} {
		object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "somebody"}})
		for kind, kept := range Cache() {
			if reflect.TypeOf(kind) == reflect.TypeOf(object) {
				if _, err := kept.Transform(object); err != nil {
					t.Fatal(err)
				}
			}
		}
		if len(object.GetManagedFields()) > 0 {
			t.Errorf("the cache keeps the managed fields of %T", object)
		}
	}
}
