package webhooks

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

// What was stored before a rule came must get through its life all the same.
func TestWhatTheControllerWritesIsNotHeldToNewRules(t *testing.T) {
	before := &infrav1.IDCHost{}
	before.Spec.Address = "not an address"
	after := before.DeepCopy()
	after.Spec.Claim = &infrav1.HostClaim{Name: "worker-1", InstanceID: "1"}
	after.Spec.Quarantine, after.Spec.UncleanInstanceID = &infrav1.HostQuarantine{Reason: "x"}, "1"
	if _, err := (&IDCHost{}).ValidateUpdate(t.Context(), before, after); err != nil {
		t.Error(err)
	}
	after.Spec.Port = 2222
	if _, err := (&IDCHost{}).ValidateUpdate(t.Context(), before, after); err == nil {
		t.Error("a person's change is not checked")
	}

	machine := &infrav1.IDCMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "worker.1"}}
	owned := machine.DeepCopy()
	owned.Spec.HostRef, owned.Spec.InstanceID = &infrav1.HostReference{Name: "host-1"}, "1"
	for id, good := range map[string]bool{
		"idc://team/host-1/1": true, "idc://team/host-1": true, // The second is of a machine that an older controller made.
		"idc://team/host-2/1": false, "idc://team/host-1/2": false, "idc://team/host-1/": false, "idc://other/host-1/1": false,
	} {
		owned.Spec.ProviderID = id
		if _, err := (&IDCMachine{}).ValidateUpdate(t.Context(), machine, owned); (err == nil) != good {
			t.Errorf("%s: %v", id, err)
		}
	}
}
