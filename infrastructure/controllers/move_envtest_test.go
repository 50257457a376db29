//go:build envtest

package controllers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

// clusterctl move pauses Clusters, copies spec and metadata without status under new UIDs, and deletes
// the source with its finalizers removed (cmd/clusterctl/client/cluster/mover.go). Here the copies come
// into the same namespace, after the deletion.
func TestMove(t *testing.T) {
	s := newSite(t)
	stop := s.manager(nil)
	s.host("claimed", nil)
	s.machine("worker-1", nil)
	s.ready("worker-1")
	s.host("free", nil)
	s.host("sick", func(h *infrav1.IDCHost) {
		h.Spec.Quarantine = &infrav1.HostQuarantine{Reason: "broken fan", Since: metav1.Now()}
	})
	says(s, &infrav1.IDCHost{}, "free", infrav1.AvailableCondition, infrav1.FreeReason)
	says(s, &infrav1.IDCHost{}, "sick", infrav1.AvailableCondition, infrav1.QuarantinedReason)
	if _, marked := get[corev1.Secret](s, "hosts").Labels[clusterctlv1.ClusterctlMoveLabel]; !marked {
		t.Error("the Secret with the key would stay behind")
	}
	before := s.getMachine("worker-1")
	edit(s, "blue", func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) })
	says(s, &infrav1.IDCMachine{}, "worker-1", clusterv1.PausedCondition, clusterv1.PausedReason)
	says(s, &infrav1.IDCHost{}, "claimed", clusterv1.PausedCondition, clusterv1.PausedReason)

	objects := []client.Object{
		s.getHost("claimed"), s.getHost("free"), s.getHost("sick"), get[clusterv1.Cluster](s, "blue"), get[clusterv1.Machine](s, "worker-1"), before.DeepCopy(),
	}
	for _, object := range objects {
		if err := environment.Client.Delete(t.Context(), object.DeepCopyObject().(client.Object)); err != nil {
			t.Fatal(err)
		}
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":[]}}`))
		if err := client.IgnoreNotFound(environment.Client.Patch(t.Context(), object.DeepCopyObject().(client.Object), patch)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"claimed", "free", "sick"} {
		s.eventually("the source is gone", func() bool { return s.gone(&infrav1.IDCHost{}, name) })
	}
	s.eventually("the source is gone", func() bool { return s.gone(&infrav1.IDCMachine{}, "worker-1") })
	stop()
	if h := s.fleet.edit("claimed", nil); h.cleanUps != 0 || h.machine != before.Spec.InstanceID {
		t.Fatalf("the source let go of its host: %+v", h)
	}

	// The program of the target runs while the copies arrive, one after the other.
	s.manager(nil)
	var owner *clusterv1.Machine
	for _, object := range objects {
		object.SetUID("")
		object.SetResourceVersion("")
		object.SetOwnerReferences(nil)
		switch copied := object.(type) {
		case *clusterv1.Machine:
			owner = copied
			copied.Status = clusterv1.MachineStatus{}
		case *infrav1.IDCMachine:
			copied.Status = infrav1.IDCMachineStatus{}
			copied.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, clusterv1.GroupVersion.WithKind("Machine"))}
		case *infrav1.IDCHost:
			copied.Status = infrav1.IDCHostStatus{}
		case *clusterv1.Cluster:
			copied.Status = clusterv1.ClusterStatus{}
		}
		s.create(object)
	}
	edit(s, "blue", func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(false) })
	s.ready("worker-1")
	after := s.getMachine("worker-1")
	if after.UID == before.UID || after.Spec.ProviderID != before.Spec.ProviderID || after.Spec.InstanceID != before.Spec.InstanceID {
		t.Errorf("%+v", after.Spec)
	}
	if pairs := s.bijection(); pairs != 1 {
		t.Errorf("%d machines have hosts", pairs)
	}
	if h := s.fleet.edit("claimed", nil); h.bootstraps != 1 || h.cleanUps != 0 {
		t.Errorf("the host was worked on: %+v", h)
	}
	says(s, &infrav1.IDCHost{}, "claimed", infrav1.AvailableCondition, infrav1.ClaimedReason)
	says(s, &infrav1.IDCHost{}, "free", infrav1.AvailableCondition, infrav1.FreeReason)
	says(s, &infrav1.IDCHost{}, "sick", infrav1.AvailableCondition, infrav1.QuarantinedReason)

	s.delete(&infrav1.IDCMachine{}, "worker-1")
	s.eventually("the machine is gone", func() bool { return s.gone(&infrav1.IDCMachine{}, "worker-1") })
	says(s, &infrav1.IDCHost{}, "claimed", infrav1.AvailableCondition, infrav1.FreeReason)
}
