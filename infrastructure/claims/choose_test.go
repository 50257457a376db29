package claims

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

func free(name string) infrav1.IDCHost {
	host := infrav1.IDCHost{ObjectMeta: metav1.ObjectMeta{Name: name}}
	host.Status.Conditions = []metav1.Condition{{Type: infrav1.AvailableCondition, Status: metav1.ConditionTrue}}
	return host
}

func wanting(instanceID string) *infrav1.IDCMachine {
	machine := &infrav1.IDCMachine{ObjectMeta: metav1.ObjectMeta{Name: "worker-" + instanceID}}
	machine.Spec.InstanceID = instanceID
	return machine
}

func first(t *testing.T, machine *infrav1.IDCMachine, all []infrav1.IDCHost) string {
	t.Helper()
	c, err := choose(machine, "", all)
	if err != nil || len(c.hosts) == 0 {
		t.Fatalf("%+v, %v", c, err)
	}
	return c.hosts[0].Name
}

func TestMachinesThatLookAtTheSameTimePreferDifferentHosts(t *testing.T) {
	var all []infrav1.IDCHost
	for i := range 100 {
		all = append(all, free(fmt.Sprintf("host-%d", i)))
	}
	wanted := map[string]int{}
	for i := range 100 {
		machine := wanting(fmt.Sprint(i))
		name := first(t, machine, all)
		if again := first(t, machine, all); again != name {
			t.Errorf("one machine prefers %s and %s", name, again)
		}
		wanted[name]++
	}
	if len(wanted) < 50 {
		t.Errorf("100 machines want only %d hosts", len(wanted))
	}
}

func TestAMachinePrefersTheHostThatIsClaimedForIt(t *testing.T) {
	all := []infrav1.IDCHost{free("host-0"), free("host-1"), free("host-2")}
	for i := range all {
		claimed := append([]infrav1.IDCHost{}, all...)
		claimed[i].Spec.Claim = &infrav1.HostClaim{Name: "worker-a", InstanceID: "a"}
		claimed[i].Status.Conditions = nil
		if got := first(t, wanting("a"), claimed); got != claimed[i].Name {
			t.Errorf("it prefers %s to its own %s", got, claimed[i].Name)
		}
	}
}

func TestCapacityIsWhatAPersonSaysElseWhatTheHostSays(t *testing.T) {
	host := free("host-0")
	host.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi")}
	host.Spec.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), "example.com/gpu": resource.MustParse("1")}
	for name, test := range map[string]struct {
		least corev1.ResourceList
		lacks string
	}{
		"nothing is asked for":    {nil, ""},
		"all is there":            {corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("8Gi"), "example.com/gpu": resource.MustParse("1")}, ""},
		"a person's word is less": {corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}, "cpu"},
		"nobody knows of it":      {corev1.ResourceList{"example.com/disk": resource.MustParse("1")}, "example.com/disk"},
	} {
		if lacks, _ := lacking(test.least, capacity(&host)); lacks != test.lacks {
			t.Errorf("%s: it lacks %q", name, lacks)
		}
	}
}

// A person has just changed the host, and the controller has not updated its status yet.
func TestAHostThatSpecKeepsFromMachinesIsNobodys(t *testing.T) {
	for name, edit := range map[string]func(*infrav1.IDCHost){
		"a person just took it out of quarantine": func(h *infrav1.IDCHost) { h.Spec.UncleanInstanceID = "gone" },
		"a person works on it":                    func(h *infrav1.IDCHost) { h.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} },
	} {
		t.Run(name, func(t *testing.T) {
			host := free("host-0")
			edit(&host)
			c, err := choose(wanting("a"), "", []infrav1.IDCHost{host})
			if err != nil || len(c.hosts) > 0 || taken(&host) == "" {
				t.Errorf("%+v, %v; %q", c.hosts, err, taken(&host))
			}
		})
	}
}

func TestAMachineSaysWhichHostIsOfOthersWhenItFindsNoOther(t *testing.T) {
	all := []infrav1.IDCHost{free("host-0"), free("host-1"), free("host-2")}
	for i, message := range []string{"", "IDCHost host-1 is in use: a", "IDCHost host-2 is in use: b"} {
		if message != "" {
			conditions.Set(&all[i], metav1.Condition{Type: infrav1.HealthyCondition, Status: metav1.ConditionFalse, Reason: infrav1.InUseReason, Message: message})
			conditions.Set(&all[i], metav1.Condition{Type: infrav1.AvailableCondition, Status: metav1.ConditionFalse, Reason: infrav1.NotHealthyReason, Message: "x"})
		}
	}
	if got := first(t, wanting("a"), all); got != "host-0" {
		t.Errorf("it gets %s", got)
	}
	found, err := choose(wanting("a"), "", all[1:])
	const want = "none of the 2 IDCHosts in namespace team can be had: 2 in use by others, see their conditions; add hosts, or put these right. IDCHost host-1 is in use: a"
	if got := found.message("team"); err != nil || len(found.hosts) > 0 || got != want {
		t.Errorf("%q, %v", got, err)
	}
}
