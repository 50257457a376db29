package nodes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
)

func TestAMachineHasLostItsNode(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*clusterv1.Machine)
		want bool
	}{
		"when the tenant has none of that name":   {func(*clusterv1.Machine) {}, true},
		"not when the tenant has it":              {func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "worker-1" }, false},
		"not when it never had one":               {func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "" }, false},
		"not when the Machine is being deleted":   {func(m *clusterv1.Machine) { m.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }, false},
		"not when it is no host of a data centre": {func(m *clusterv1.Machine) { m.Spec.ProviderID = "aws:///zone/i-1" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			machine := next()
			test.edit(machine)
			lost := Lost([]clusterv1.Machine{*machine}, sets.New("worker-1"))
			if got := len(lost) == 1 && lost[0].Name == machine.Name; got != test.want || len(lost) > 1 {
				t.Errorf("lost are %v", lost)
			}
		})
	}
}

// Cluster API says so at the Machine. Of one that never had a Node, or that goes, it says something else.
func TestAMachineWithoutItsNodeWakesItsCluster(t *testing.T) {
	for reason, want := range map[string]bool{clusterv1.MachineNodeDeletedReason: true, clusterv1.MachineNodeDoesNotExistReason: false, clusterv1.MachineNodeHealthyReason: false} {
		machine := next()
		conditions.Set(machine, metav1.Condition{Type: clusterv1.MachineNodeHealthyCondition, Status: metav1.ConditionFalse, Reason: reason})
		if got := lacksNode(machine); got != want {
			t.Errorf("%s: %t", reason, got)
		}
	}
	if got := clusterOf(t.Context(), next()); len(got) != 1 || got[0].String() != "team/blue" {
		t.Errorf("it wakes %v", got)
	}
}

func TestANodeIsMadeAsKubeletRegistersIt(t *testing.T) {
	machine := next()
	machine.Status.NodeInfo = &corev1.NodeSystemInfo{OperatingSystem: "linux", Architecture: "arm64"}
	taint := corev1.Taint{Key: "disk", Value: "slow", Effect: corev1.TaintEffectNoSchedule}
	got := Anew(machine, &bootstrapv1.KubeletSpec{NodeLabels: map[string]string{"rack": "7", corev1.LabelHostname: "another"}, Taints: []corev1.Taint{taint}})
	want := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-2", Labels: map[string]string{
		"rack": "7", corev1.LabelHostname: "worker-2", corev1.LabelOSStable: "linux", corev1.LabelArchStable: "arm64",
	}, Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}}}
	want.Spec.ProviderID, want.Spec.Taints = "idc://team/host-1/b", []corev1.Taint{clusterv1.NodeUninitializedTaint, taint}
	if !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("it is %+v, want %+v", got, want)
	}
}
