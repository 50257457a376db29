package controllers

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
)

// Only the control plane that a Cluster names may take its tenant along.
// InvalidSpec says that nothing runs, and nobody has looked.
func TestWhatAClusterDoesNotNameIsNotSaidToRunNothing(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := controlplanev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	stranger := &controlplanev1.KOKControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "copy"}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(stranger).WithStatusSubresource(stranger).Build()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "blue"}}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "KOKControlPlane", Name: "cp"}
	if err := (&Reconciler{Client: c}).refuseUnreferenced(t.Context(), cluster, stranger); err != nil {
		t.Fatal(err)
	}
	told := &controlplanev1.KOKControlPlane{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(stranger), told); err != nil {
		t.Fatal(err)
	}
	if reason := conditions.GetReason(told, conditionsv1.AvailableCondition); reason != conditionsv1.NotReferencedReason {
		t.Errorf("it says %q", reason)
	}
}
