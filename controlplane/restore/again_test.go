package restore

import (
	"bytes"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/rebuild"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/scheme"
)

// tried is a pod of the first member whose prepare failed so often for want of what it begins with.
func tried(why string, times int32) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: "blue-etcd-data-0", Labels: names.ComponentLabels(client.ObjectKey{Namespace: "team", Name: "blue"}, names.EtcdData),
	}}
	message, err := facts.Facts{State: facts.Empty, Seed: why}.Encode()
	if err != nil {
		panic(err)
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{
		Name: facts.Container, RestartCount: times - 1, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: string(message)}},
	}}
	return pod
}

// What lies in a snapshot has the controller go on with another one. What may pass is waited for.
func TestAnotherSnapshotIsTriedForAReasonThatLiesInTheSnapshot(t *testing.T) {
	key := bytes.Repeat([]byte{7}, 32)
	_, _, keyID, err := pki.SnapshotKeys(key)
	if err != nil {
		t.Fatal(err)
	}
	snapshot := func(name, slot string) *controlplanev1.KOKEtcdSnapshot {
		s := &controlplanev1.KOKEtcdSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
		s.Spec.ControlPlaneName, s.Status.Slot, s.Status.EncryptionKeyID = "blue", slot, keyID
		conditions.Set(s, metav1.Condition{Type: conditionsv1.SnapshotVerifiedCondition, Status: metav1.ConditionTrue, Reason: "Verified"})
		return s
	}
	for name, test := range map[string]struct {
		why       string
		times     int32
		snapshots []client.Object
		person    bool
		asks      string
		says      string
	}{
		"the snapshot is not what the member had": {why: "HashDiffers: it has another revision", times: 2, snapshots: []client.Object{snapshot("oldest", "1"), snapshot("new", "3"), snapshot("old", "2")}, asks: "old", says: "cannot begin with the KOKEtcdSnapshot new: HashDiffers: it has another revision"},
		"it is not in the store any more":         {why: "NotFound: there is no snapshot", times: 3, snapshots: []client.Object{snapshot("new", "3"), snapshot("old", "2")}, asks: "old", says: "NotFound"},
		"its object is gone, too":                 {why: "NotFound: there is no snapshot", times: 3, snapshots: []client.Object{snapshot("old", "2")}, asks: "old", says: "NotFound"},
		"another is in the future":                {why: "Truncated: its end is missing", times: 2, snapshots: []client.Object{snapshot("new", "3"), snapshot("ahead", "20990304T060000Z"), snapshot("old", "1")}, asks: "old", says: "cannot begin"},
		"there is no other":                       {why: "Truncated: its end is missing", times: 2, snapshots: []client.Object{snapshot("new", "3")}, says: "Name another snapshot in spec.etcd.restore"},
		"a person asked for it":                   {why: "Truncated: its end is missing", times: 2, snapshots: []client.Object{snapshot("new", "3"), snapshot("old", "2")}, person: true, says: "Name another snapshot in spec.etcd.restore"},
		"it failed once":                          {why: "Truncated: its end is missing", times: 1, snapshots: []client.Object{snapshot("new", "3"), snapshot("old", "2")}},
		"the store is away":                       {why: "list: s3.endpoint: no such host", times: 9, snapshots: []client.Object{snapshot("new", "3"), snapshot("old", "2")}},
	} {
		t.Run(name, func(t *testing.T) {
			c := observed("a")
			c.Namespace, c.Name = "team", "blue"
			of := &Facts{
				ControlPlane: c, Cluster: client.ObjectKey{Namespace: "team", Name: "blue"}, Input: &components.Input{}, Keys: &pki.KeyMaterial{EncryptionKey: key},
				Host: &hostclusters.Host{Live: fake.NewClientBuilder().WithObjects(tried(test.why, test.times)).Build()},
			}
			begins := &rebuild.Ask{Snapshot: "new"}
			p := Progress{read: true, request: second, Record: rebuild.Record{Restore: second, Phase: rebuild.Founding, Seed: "blue-etcd-data-0", Begins: begins, Automatic: !test.person}}
			if !test.person {
				p.automatic = begins
			}
			r := &Restorer{Management: fake.NewClientBuilder().WithScheme(scheme.Scheme()).WithObjects(test.snapshots...).Build(), Clock: clock.RealClock{}}
			next, err := r.lookAtSeed(t.Context(), of, p)
			if err != nil || !strings.Contains(next.refusal, test.says) || (test.says == "") != (next.refusal == "") {
				t.Errorf("it says %q: %v", next.refusal, err)
			}
			if again := next.request != second; again != (test.asks != "") || again && (next.request < second || next.automatic.Snapshot != test.asks) {
				t.Errorf("it asks for %+v at %s", next.automatic, next.request)
			}
		})
	}
}
