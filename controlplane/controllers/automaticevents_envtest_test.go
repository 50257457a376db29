//go:build envtest

package controllers

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/restore"
)

// Whenever the manager is killed, the etcd with the events is founded anew once, empty, and nothing else stops. A person who forbids it
// meanwhile does not leave it half done.
func TestEventsBeginAnewByThemselves(t *testing.T) {
	withFaults(t, func(t *testing.T) *tenantTest { return losingEvents(t, 3, controlplanev1.EtcdRecoversAutomatically) }, func(tt *tenantTest) {
		before, token := tt.uids(names.EtcdEvents), tt.eventsToken()
		tt.wipe("blue-etcd-events-0", "blue-etcd-events-1")
		forbidden := false
		tt.host.broken = func(*corev1.Pod) bool { // It is asked between reconciles.
			if !forbidden && tt.eventsRecord() != "" {
				forbidden = true
				edit(tt.t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) { c.Spec.Etcd.Recovery = "" })
			}
			return false
		}
		tt.settleThroughFaults()
		at := tt.expectEventsFoundedByThemselves(token)
		for what, uid := range tt.uids(names.EtcdEvents) {
			if before[what] == uid {
				tt.t.Errorf("%s is as before", what)
			}
		}
		if record := tt.record(); record.Restore != "" {
			tt.t.Errorf("the data etcd was founded anew, too: %+v", record)
		}
		// Status that is lost, as in a move, founds nothing again, and the new etcd keeps its name.
		anew, files := tt.uids(names.EtcdEvents), tt.eventsFiles().Data
		controlPlane := tt.controlPlane()
		controlPlane.Status = controlplanev1.KOKControlPlaneStatus{}
		if err := environment.Client.Status().Update(tt.t.Context(), controlPlane); err != nil {
			tt.t.Fatal(err)
		}
		tt.settleThroughFaults()
		if got := tt.expectEventsFoundedByThemselves(token); got != at {
			tt.t.Errorf("it was founded at %s, and after status was lost at %s", at, got)
		}
		if got := tt.uids(names.EtcdEvents); !maps.Equal(got, anew) {
			tt.t.Errorf("after status was lost there are %v, and were %v", got, anew)
		}
		if got := tt.eventsFiles().Data; !maps.Equal(got, files) {
			tt.t.Errorf("after status was lost the files of its members are %v, and were %v", got, files)
		}
	})
}

// Nothing is founded anew that may come back, that spec does not allow, or that nobody knows to have stopped.
func TestEventsDoNotBeginAnewByThemselvesWithoutNeed(t *testing.T) {
	t.Parallel()
	foundNothingAnew(t, losingEvents, []noNeed{
		{"spec allows it for the data alone", controlplanev1.EtcdRecoversFromSurvivor, func(tt *tenantTest) {
			tt.wipe("blue-etcd-events-0", "blue-etcd-events-1", "blue-etcd-events-2")
		}, ""},
		{"a quorum can return", controlplanev1.EtcdRecoversAutomatically, func(tt *tenantTest) {
			tt.wipe("blue-etcd-events-0")
			tt.host.broken = func(pod *corev1.Pod) bool { return pod.Name == "blue-etcd-events-1" }
		}, ""},
		{"the host node of the member that is left is not heard from", controlplanev1.EtcdRecoversAutomatically, func(tt *tenantTest) {
			tt.wipe("blue-etcd-events-0", "blue-etcd-events-1")
			tt.hearNode(2, false)
		}, "spec.etcd.recovery: etcd-events: members blue-etcd-events-2 may have their data, and are not heard from"},
		{"two host nodes are off", controlplanev1.EtcdRecoversAutomatically, func(tt *tenantTest) {
			tt.host.broken = func(pod *corev1.Pod) bool { return strings.Contains(pod.Name, names.EtcdEvents) }
			tt.hearNode(1, false)
			tt.hearNode(2, false)
		}, ""},
	})
}

// What made members lose their data may go on. A person need not wait.
func TestEventsBeginAnewByThemselvesOnceAnHour(t *testing.T) {
	t.Parallel()
	tt := losingEvents(t, 1, controlplanev1.EtcdRecoversAutomatically)
	token := tt.eventsToken()
	tt.wipe("blue-etcd-events-0")
	tt.settle()
	last := tt.expectEventsFoundedByThemselves(token)
	tt.passSecond()
	tt.wipe("blue-etcd-events-0")
	tt.settle()
	if record := tt.eventsRecord(); record != last {
		t.Errorf("it was founded anew at %s, and at %s", last, record)
	}
	tt.expectReconciled("the second loss", "spec.etcd.recovery: etcd-events was founded anew at "+last+", and lost its quorum again")
	asked := metav1.NewTime(time.Now().Truncate(time.Second))
	tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) { s.Etcd.Events.FoundAnewAt = asked })
	events := etcdclusters.Status(tt.controlPlane(), names.EtcdEvents)
	if !events.RestoredAt.Time.Equal(asked.Time) || !ptr.Deref(events.Bootstrapped, false) || !conditions.IsTrue(tt.controlPlane(), conditionsv1.AvailableCondition) {
		t.Errorf("after a person asked its status is %+v", events)
	}
}

// Where both etcds lost their data, both begin anew by themselves, and neither forgets the other's record.
func TestDataAndEventsBeginAnewByThemselves(t *testing.T) {
	withFaults(t, func(t *testing.T) *tenantTest { return losingEvents(t, 1, controlplanev1.EtcdRecoversAutomatically) }, func(tt *tenantTest) {
		token := tt.eventsToken()
		tt.wipe("blue-etcd-events-0")
		tt.wipe("blue-etcd-data-0")
		tt.settleThroughFaults()
		tt.expectEventsFoundedByThemselves(token)
		record := tt.record()
		at, err := time.Parse(time.RFC3339, record.Restore)
		if err != nil || !record.Automatic {
			tt.t.Fatalf("the record of the data etcd is %+v: %v", record, err)
		}
		tt.expectRestored(metav1.NewTime(at))
	})
}

// losingEvents is a tenant that works, whose pods and volumes are older than the present second.
func losingEvents(t *testing.T, members int, recovery controlplanev1.EtcdRecovery) *tenantTest {
	t.Helper()
	tt := restorable(t, members, func(c *controlplanev1.KOKControlPlane) {
		c.Spec.Etcd.Events.Replicas, c.Spec.Etcd.Recovery = ptr.To(int32(members)), recovery
	})
	tt.passSecond()
	return tt
}

// passSecond waits until all that was made is older than the present second: API servers count whole ones.
func (tt *tenantTest) passSecond() {
	tt.t.Helper()
	waitUntil(tt.t, time.Now().Add(time.Second).Truncate(time.Second))
}

// eventsRecord is when the controller last founded the etcd with the events anew by itself; empty for never.
func (tt *tenantTest) eventsRecord() string {
	tt.t.Helper()
	config := &corev1.ConfigMap{}
	if err := environment.Client.Get(tt.t.Context(), tt.inNamespace(names.RestoreRecord(tt.cluster.Name)), config); client.IgnoreNotFound(err) != nil {
		tt.t.Fatal(err)
	}
	return config.Data[restore.EventsKey]
}

// expectEventsFoundedByThemselves fails unless the etcd with the events was founded anew once, and works. It returns when.
func (tt *tenantTest) expectEventsFoundedByThemselves(formerToken string) string {
	tt.t.Helper()
	at, controlPlane := tt.eventsRecord(), tt.controlPlane()
	events := etcdclusters.Status(controlPlane, names.EtcdEvents)
	if at == "" || events.RestoredAt.UTC().Format(time.RFC3339) != at || events.Restoring != nil || !ptr.Deref(events.Bootstrapped, false) {
		tt.t.Fatalf("the record is %q, and the status of the etcd with the events %+v: %+v", at, events, controlPlane.Status.Conditions)
	}
	if !controlPlane.Spec.Etcd.Events.FoundAnewAt.IsZero() {
		tt.t.Error("the controller wrote spec")
	}
	if got := tt.eventsToken(); got != formerToken+"/"+at {
		tt.t.Errorf("the token of the new etcd is %q, and was %q", got, formerToken)
	}
	made := slices.DeleteFunc(slices.Sorted(maps.Keys(tt.host.made)), func(name string) bool { return !strings.Contains(name, names.EtcdEvents) })
	for _, name := range made {
		if tt.host.made[name] != 2 {
			tt.t.Errorf("pod %s was made %d times, want 2", name, tt.host.made[name])
		}
	}
	if !conditions.IsTrue(controlPlane, conditionsv1.AvailableCondition) || tt.restoring() {
		tt.t.Errorf("it is not available, or still founded anew: %+v", controlPlane.Status.Conditions)
	}
	return at
}
