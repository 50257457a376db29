package controllers

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Package apply finds by managed fields what others added to an object. All else only costs memory.
func TestCachesKeepManagedFieldsOnlyOfWhatIsApplied(t *testing.T) {
	kept := map[string]bool{
		"*v1.StatefulSet": true, "*v1.DaemonSet": true, "*v1.Deployment": true, "*v1.PodDisruptionBudget": true, "*v1.NetworkPolicy": true,
		"*v1.Service": true, "*v1.ConfigMap": true,
	}
	seen := 0
	for kind, byObject := range ManagerCache() {
		object := kind.DeepCopyObject().(client.Object)
		object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl"}})
		if byObject.Transform != nil {
			trimmed, err := byObject.Transform(object)
			if err != nil {
				t.Fatal(err)
			}
			object = trimmed.(client.Object)
		}
		name := fmt.Sprintf("%T", kind)
		if got := len(object.GetManagedFields()) > 0; got != kept[name] {
			t.Errorf("%s is held with managed fields: %t", name, got)
		}
		if kept[name] {
			seen++
		}
	}
	if seen != len(kept) {
		t.Errorf("%d of %d kinds that are applied are held", seen, len(kept))
	}
}
