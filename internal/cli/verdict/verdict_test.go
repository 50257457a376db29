package verdict

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

var then = metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))

func condition(name string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: name, Status: status, Reason: reason, Message: message, LastTransitionTime: then}
}

func TestAHostIsJudgedByItsConditions(t *testing.T) {
	yes, no := metav1.ConditionTrue, metav1.ConditionFalse
	reachable := condition("Reachable", yes, infrav1.ReachableReason, "")
	healthy := condition("Healthy", yes, infrav1.HealthyReason, "")
	away := condition("Reachable", no, infrav1.HostAwayReason, "the host cannot be reached")
	unknown := condition("Healthy", metav1.ConditionUnknown, infrav1.NotReachableReason, "see condition Reachable")
	for name, test := range map[string]struct {
		change     func(*infrav1.IDCHost)
		conditions []metav1.Condition
		// state and reason are expected, message and wayOut contained.
		state, reason, message, wayOut string
	}{
		"free":                             {conditions: []metav1.Condition{reachable, healthy, condition("Available", yes, "Free", "")}, state: Free, reason: "Free"},
		"a machine has it":                 {conditions: []metav1.Condition{reachable, healthy, condition("Available", no, "Claimed", "claimed by")}, state: Claimed, reason: "Claimed"},
		"a machine has it, and it is away": {conditions: []metav1.Condition{away, unknown, condition("Available", no, "Claimed", "")}, state: Unusable, reason: "HostAway", message: "cannot be reached"},
		"away":                             {conditions: []metav1.Condition{away, unknown, condition("Available", no, "NotHealthy", "see condition Reachable")}, state: Unusable, reason: "HostAway", message: "cannot be reached"},
		"somebody's":                       {conditions: []metav1.Condition{reachable, condition("Healthy", no, "InUse", "kubelet runs"), condition("Available", no, "NotHealthy", "")}, state: Unusable, reason: "InUse", message: "kubelet runs", wayOut: "kubectl delete idchost seven --namespace team"},
		"in quarantine":                    {conditions: []metav1.Condition{reachable, healthy, condition("Available", no, "Quarantined", "in quarantine: the fan")}, state: Unusable, reason: "Quarantined", message: "the fan", wayOut: `'{"spec":{"quarantine":null}}'`},
		"in quarantine until the controller cleaned it": {
			change:     func(h *infrav1.IDCHost) { h.Spec.Quarantine = &infrav1.HostQuarantine{Reason: "away", InstanceID: "i"} },
			conditions: []metav1.Condition{condition("Available", no, "Quarantined", "it is cleaned")}, state: Unusable, reason: "Quarantined", message: "it is cleaned"},
		"another key":   {conditions: []metav1.Condition{condition("Reachable", no, "HostKeyMismatch", "has the host key"), condition("Available", no, "NotHealthy", "")}, state: Unusable, reason: "HostKeyMismatch", message: "host key", wayOut: "spec.hostKeys"},
		"no controller": {state: Unknown, reason: "NotAsked", message: "the controller did not look at it yet"},
		"being probed":  {conditions: []metav1.Condition{condition("Reachable", metav1.ConditionUnknown, "NotAsked", "the first probe of the host is under way"), condition("Available", no, "NotHealthy", "")}, state: Unknown, reason: "NotAsked", message: "under way"},
		"a spec that the controller did not see": {
			change:     func(h *infrav1.IDCHost) { h.Generation = 2; h.Status.ObservedGeneration = 1 },
			conditions: []metav1.Condition{reachable, healthy, condition("Available", yes, "Free", "")}, state: Unknown, reason: "NotAsked", message: "did not look"},
	} {
		t.Run(name, func(t *testing.T) {
			host := &infrav1.IDCHost{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "seven"}}
			host.Status.Conditions = test.conditions
			if test.change != nil {
				test.change(host)
			}
			got := Of(host)
			if got.State != test.state || got.Reason != test.reason || !strings.Contains(got.Message, test.message) || !strings.Contains(got.WayOut, test.wayOut) ||
				test.wayOut == "" && got.WayOut != "" {
				t.Errorf("%+v", got)
			}
			if got.Usable() != (test.state == Free || test.state == Claimed) {
				t.Errorf("usable: %t", got.Usable())
			}
		})
	}
}

// A host that is well may be kept from use all the same.
func TestWhatKeepsAHostFromUseIsTold(t *testing.T) {
	yes, no := metav1.ConditionTrue, metav1.ConditionFalse
	reachable, healthy := condition("Reachable", yes, infrav1.ReachableReason, ""), condition("Healthy", yes, infrav1.HealthyReason, "")
	const wayOut = `; once it is put right: kubectl patch idchost seven --namespace team --type=merge -p '{"spec":{"quarantine":null}}'`
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		want       string
	}{
		"free":             {[]metav1.Condition{reachable, healthy, condition("Available", yes, "Free", "")}, ""},
		"a machine has it": {[]metav1.Condition{reachable, healthy, condition("Available", no, "Claimed", "claimed by IDCMachine m")}, ""},
		"in quarantine":    {[]metav1.Condition{reachable, healthy, condition("Available", no, "Quarantined", "in quarantine: the fan")}, "Available: Quarantined: in quarantine: the fan" + wayOut},
		"its machine is lost": {
			[]metav1.Condition{reachable, healthy, condition("Available", no, "ClaimLost", "its machine is gone")}, "Available: ClaimLost: its machine is gone"},
		"being deleted": {[]metav1.Condition{reachable, healthy, condition("Available", no, "Deleting", "the host is being deleted")}, "Available: Deleting: the host is being deleted"},
		"away": {
			[]metav1.Condition{
				condition("Reachable", no, "HostAway", "it does not answer"), condition("Healthy", metav1.ConditionUnknown, "NotReachable", "see condition Reachable"),
				condition("Available", no, "NotHealthy", "see condition Reachable"),
			}, "Reachable: HostAway: it does not answer"},
		"away, and in quarantine": {
			[]metav1.Condition{
				condition("Reachable", no, "HostAway", "it does not answer"), condition("Healthy", metav1.ConditionUnknown, "NotReachable", "see condition Reachable"),
				condition("Available", no, "Quarantined", "in quarantine: the fan"),
			}, "Reachable: HostAway: it does not answer; Available: Quarantined: in quarantine: the fan" + wayOut},
		"somebody's": {
			[]metav1.Condition{
				reachable, condition("Healthy", no, "InUse", "a kubelet runs"), condition("Available", no, "NotHealthy", "see condition Healthy"),
			}, "Healthy: InUse: a kubelet runs; if it is not meant to be a machine: kubectl delete idchost seven --namespace team; if it may be wiped, set spec.takeOver to the fact above: kubectl edit idchost seven --namespace team"},
		"not known yet": {[]metav1.Condition{reachable, healthy}, "Available is not known yet"},
	} {
		t.Run(name, func(t *testing.T) {
			host := &infrav1.IDCHost{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "seven"}}
			host.Status.Conditions = test.conditions
			if got := Missing(host); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
