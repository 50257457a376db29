//go:build envtest

package controllers

import (
	"cmp"
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestADeletionSurvivesFaults(t *testing.T) {
	t.Parallel()
	withFaults(t, func(t *testing.T) *tenantTest {
		tt := newTenantTest(t, small)
		tt.settle()
		return tt
	}, func(tt *tenantTest) {
		tt.delete(tt.controlPlane())
		tt.gone()
	})
}

// goesInOrder fails if one of the objects is gone while something is left that has to go before.
func (tt *tenantTest) goesInOrder(objects []client.Object) {
	tt.t.Helper()
	left := tt.objects()
	if len(left) == 0 {
		return
	}
	names := kindsAndNames(left)
	first := slices.MinFunc(left, func(a, b client.Object) int { return cmp.Compare(deletionStage(a), deletionStage(b)) })
	objects = slices.DeleteFunc(slices.Clone(objects), func(o client.Object) bool { return deletionStage(o) <= deletionStage(first) })
	for _, name := range kindsAndNames(objects) {
		if !slices.Contains(names, name) {
			tt.t.Errorf("%s is gone before %s", name, kindsAndNames([]client.Object{first})[0])
		}
	}
}

// deletionStage is 0 for what runs, 1 for what that uses, and 2 for the ports, which another tenant may have then.
func deletionStage(object client.Object) int {
	switch object.GetObjectKind().GroupVersionKind().Kind {
	case "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet", "PodDisruptionBudget", "Pod":
		return 0
	}
	if object.GetNamespace() == managerNamespace {
		return 2
	}
	return 1
}
