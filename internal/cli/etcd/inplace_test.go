package etcd

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
)

func TestWhatARestoreInPlaceWaitsFor(t *testing.T) {
	requested := metav1.NewTime(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	const generation = 7
	at := func(observed int64, name string, status metav1.ConditionStatus, message string) metav1.Condition {
		return metav1.Condition{Type: name, Status: status, Reason: "Reason", Message: message, ObservedGeneration: observed}
	}
	available := at(generation, conditionsv1.AvailableCondition, metav1.ConditionTrue, "")
	recovered := at(generation, conditionsv1.EtcdRecoveringCondition, metav1.ConditionFalse, "")
	restoring := at(generation, conditionsv1.EtcdRecoveringCondition, metav1.ConditionTrue, "the first member begins")
	restoring.Reason = conditionsv1.RestoringReason
	refused := at(generation, conditionsv1.ReconciledCondition, metav1.ConditionFalse, "etcd rolls out\nspec.etcd.restore: snapshot names nothing")
	for name, test := range map[string]struct {
		over       bool
		conditions []metav1.Condition
		left       string
		refused    bool
	}{
		"nobody saw the request yet": {false, []metav1.Condition{available, recovered}, "the controller has yet to begin", false},
		"the former state is told, of before the request": {false, []metav1.Condition{
			at(generation-1, conditionsv1.ReconciledCondition, metav1.ConditionFalse, "spec.etcd.restore: an older request"),
		}, "the controller has yet to begin", false},
		"it is refused":               {false, []metav1.Condition{available, refused}, "spec.etcd.restore: snapshot names nothing", true},
		"it stops pods":               {false, []metav1.Condition{at(generation, conditionsv1.EtcdRecoveringCondition, metav1.ConditionTrue, "pods have yet to stop")}, "pods have yet to stop", false},
		"etcd is there, and no API":   {true, []metav1.Condition{recovered, at(generation, conditionsv1.AvailableCondition, metav1.ConditionFalse, "no API server")}, "the control plane is not available yet: no API server", false},
		"availability is not known":   {true, []metav1.Condition{recovered}, "the control plane is not available yet", false},
		"etcd is being founded":       {true, []metav1.Condition{available, restoring}, "the first member begins", false},
		"the host node of one is off": {true, []metav1.Condition{available, at(generation, conditionsv1.EtcdRecoveringCondition, metav1.ConditionTrue, "n1 is not heard from")}, "", false},
		"it is over":                  {true, []metav1.Condition{available, recovered}, "", false},
		"an old refusal is over too":  {true, []metav1.Condition{available, recovered, refused}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			c := &controlplanev1.KOKControlPlane{}
			c.Generation = generation
			c.Status.Etcd = []controlplanev1.EtcdClusterStatus{{Name: "data"}}
			if test.over {
				c.Status.Etcd[0].RestoredAt = requested
			}
			for _, condition := range test.conditions {
				conditions.Set(c, condition)
			}
			// Set takes the object's generation where there is none.
			for i := range c.Status.Conditions {
				c.Status.Conditions[i].ObservedGeneration = test.conditions[indexOf(test.conditions, c.Status.Conditions[i].Type)].ObservedGeneration
			}
			if left, refused := restoreWaitsFor(c, requested); left != test.left || refused != test.refused {
				t.Errorf("it waits for %q, and it is %t that it is refused", left, refused)
			}
		})
	}
}

func indexOf(all []metav1.Condition, name string) int {
	for i := range all {
		if all[i].Type == name {
			return i
		}
	}
	return -1
}

func TestEventsAreWaitedForUntilTheirEtcdWorks(t *testing.T) {
	asked := metav1.NewTime(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
	before := metav1.NewTime(asked.Add(-time.Hour))
	recovering := func(reason, message string) metav1.Condition {
		return metav1.Condition{Type: conditionsv1.EtcdRecoveringCondition, Status: metav1.ConditionTrue, Reason: reason, Message: message}
	}
	stopping := recovering(conditionsv1.RestoringReason, "etcd-events is founded anew: pods have yet to stop")
	for name, test := range map[string]struct {
		founded    metav1.Time
		ready, all int32
		conditions []metav1.Condition
		says       string
	}{
		"nobody saw the request yet":      {before, 3, 3, nil, "the controller has yet to begin"},
		"the former pods stop":            {before, 0, 3, []metav1.Condition{stopping}, "etcd-events is founded anew: pods have yet to stop"},
		"no member began yet":             {asked, 0, 0, nil, "0 of its 0 members are ready, and it needs 1"},
		"one member works":                {asked, 1, 3, nil, "1 of its 3 members are ready, and it needs 2"},
		"the host node of one is off":     {asked, 2, 3, nil, ""},
		"and one is known to be lost":     {asked, 2, 3, []metav1.Condition{recovering(conditionsv1.RecoveringReason, "etcd-events: blue-etcd-events-2 is not heard from")}, ""},
		"all work":                        {asked, 3, 3, nil, ""},
		"the only member works":           {asked, 1, 1, nil, ""},
		"it works, and the data etcd not": {asked, 3, 3, []metav1.Condition{recovering(conditionsv1.RestoringReason, "etcd-data is founded anew: pods have yet to stop")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			of := &controlplanev1.KOKControlPlane{}
			of.Status.Conditions = test.conditions
			of.Status.Etcd = []controlplanev1.EtcdClusterStatus{{Name: "events", ClusterID: "00000000000f0e3e", RestoredAt: test.founded, ReadyReplicas: ptr.To(test.ready), Replicas: ptr.To(test.all)}}
			if got := eventsWaitFor(of, asked); got != test.says {
				t.Errorf("it waits for %q, not for %q", got, test.says)
			}
			of.Status.Etcd[0].ClusterID = ""
			if got := eventsWaitFor(of, asked); test.says == "" && got != "nobody saw it answer yet" {
				t.Errorf("while nobody saw it answer, it waits for %q", got)
			}
		})
	}
}

func TestANewRequestIsLaterThanAllBefore(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
	at := func(minutes int) metav1.Time {
		return metav1.NewTime(now.Truncate(time.Second).Add(time.Duration(minutes) * time.Minute))
	}
	for name, test := range map[string]struct{ restored, restoring, asked, want metav1.Time }{
		"there was none":             {want: at(0)},
		"all are over":               {restored: at(-9), asked: at(-9), want: at(0)},
		"one is over, and ahead":     {restored: at(9), asked: at(8), want: metav1.NewTime(at(9).Add(time.Second))},
		"one is under way and ahead": {restored: at(-9), restoring: at(9), asked: at(8), want: metav1.NewTime(at(9).Add(time.Second))},
		"one is asked for and ahead": {restored: at(-9), restoring: at(8), asked: at(9), want: metav1.NewTime(at(9).Add(time.Second))},
		"one is of this second":      {asked: at(0), want: metav1.NewTime(at(0).Add(time.Second))},
	} {
		t.Run(name, func(t *testing.T) {
			of := &controlplanev1.KOKControlPlane{}
			of.Status.Etcd = []controlplanev1.EtcdClusterStatus{{Name: "data", RestoredAt: test.restored}}
			if !test.restoring.IsZero() {
				of.Status.Etcd[0].Restoring = &controlplanev1.EtcdRestoringStatus{RequestedAt: test.restoring}
			}
			if !test.asked.IsZero() {
				of.Spec.Etcd.Restore = &controlplanev1.EtcdRestoreSpec{RequestedAt: test.asked}
			}
			if got := requestedAt(of, now); !got.Equal(&test.want) {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// The condition is of both etcds.
func TestTheOtherEtcdIsNoneOfTheMembersThatAreAway(t *testing.T) {
	of := &controlplanev1.KOKControlPlane{}
	of.Status.Conditions = []metav1.Condition{{Type: conditionsv1.EtcdRecoveringCondition, Status: metav1.ConditionTrue, Message: "etcd-data: blue-etcd-data-2 is lost"}}
	if got := recovers(of, "etcd-events"); got != "" {
		t.Errorf("etcd-events: %q", got)
	}
	if got := recovers(of, "etcd-data"); got != "etcd-data: blue-etcd-data-2 is lost" {
		t.Errorf("etcd-data: %q", got)
	}
	of.Status.Conditions[0].Status = metav1.ConditionFalse
	if got := recovers(of, "etcd-data"); got != "" {
		t.Errorf("it is over: %q", got)
	}
}
