package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/membership"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// rollingEtcd is all that replacing members depends on: three that are fine and not up to date, of which the first leads.
type rollingEtcd struct {
	set    *appsv1.StatefulSet
	pods   []corev1.Pod
	nodes  []corev1.Node
	health *etcd.Health
	// bootstrapped is true once every first member has joined.
	bootstrapped bool
	// storage is where members have their data.
	storage controlplanev1.EtcdStorageType
	// refused is how a deletion ends.
	refused error
	// moved are the members that got the lead.
	moved []string
}

func newRollingEtcd(now time.Time) *rollingEtcd {
	e := &rollingEtcd{set: &appsv1.StatefulSet{}, health: healthy(), bootstrapped: true}
	e.set.Namespace, e.set.Name, e.set.Generation = "team", "blue-etcd-data", 2
	e.set.Spec.Replicas, e.set.Spec.UpdateStrategy.Type = ptr.To[int32](3), appsv1.OnDeleteStatefulSetStrategyType
	e.set.Status = appsv1.StatefulSetStatus{ObservedGeneration: 2, CurrentRevision: "old", UpdateRevision: "new"}
	for i := range int32(3) {
		pod := readyPod(names.EtcdData, i)
		pod.Namespace, pod.UID = "team", types.UID(pod.Name)
		pod.Labels = names.ComponentLabels(client.ObjectKey{Namespace: "team", Name: "blue"}, names.EtcdData)
		pod.Labels[appsv1.ControllerRevisionHashLabelKey] = "old"
		pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-30 * time.Second))
		e.pods = append(e.pods, pod)
		e.health.Members[i].Answered, e.health.Members[i].Follows = true, true
	}
	return e
}

// roll takes the next step, and tells which pods are deleted.
func (e *rollingEtcd) roll(t *testing.T, now time.Time) (deleted []string, says string, err error) {
	t.Helper()
	objects := []client.Object{e.set}
	for i := range e.pods {
		objects = append(objects, &e.pods[i])
	}
	for i := range e.nodes {
		objects = append(objects, &e.nodes[i])
	}
	host := interceptor.NewClient(fake.NewClientBuilder().WithObjects(objects...).Build(), interceptor.Funcs{
		Delete: func(_ context.Context, _ client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			applied := (&client.DeleteOptions{}).ApplyOptions(options)
			if applied.Preconditions == nil || applied.Preconditions.UID == nil || *applied.Preconditions.UID != object.GetUID() {
				t.Errorf("%s is deleted whichever it is", object.GetName())
			}
			deleted = append(deleted, object.GetName())
			return e.refused
		},
	})
	task := newTask(host)
	task.Input.Spec.Etcd.Data.Storage.Type, task.Bootstrapped = e.storage, e.bootstrapped
	reached := Etcd{Change: func(_ context.Context, kind membership.Kind, to string, _ *etcd.Health, _ map[string]etcd.Address, _ *tls.Config) error {
		if kind != membership.MoveLeader {
			t.Errorf("%s is a change of members", kind)
		}
		e.moved = append(e.moved, to)
		return nil
	}}
	c := New(reached, clocktesting.NewFakeClock(now), events.NewFakeRecorder(10)).cluster(t.Context(), task)
	decided, err := c.decideRollout(t.Context(), e.health)
	if err != nil || decided.act == nil {
		return deleted, decided.waitsFor, err
	}
	says, err = decided.act(t.Context())
	return deleted, says, err
}

func TestWhichMemberOfEtcdIsReplaced(t *testing.T) {
	now := time.Now()
	pods := schema.GroupResource{Resource: "pods"}
	unready := func(e *rollingEtcd, i int) {
		e.pods[i].Status.Conditions[0].Status = corev1.ConditionFalse
		e.health.Members[i].Err, e.health.Members[i].Answered, e.health.Members[i].Follows = errRefused, false, false
	}
	for name, test := range map[string]struct {
		is      func(*rollingEtcd)
		replace string
		says    string
		fails   string
	}{
		"all are fine":              {func(*rollingEtcd) {}, podName(names.EtcdData, 2), "member blue-etcd-data-2 is replaced", ""},
		"all are up to date":        {func(e *rollingEtcd) { e.set.Status.UpdateRevision = "old" }, "", "", ""},
		"a change was not seen yet": {func(e *rollingEtcd) { e.set.Generation++ }, "", "the host cluster has not seen", ""},
		"it was never seen":         {func(e *rollingEtcd) { e.set.Generation, e.set.Status = 0, appsv1.StatefulSetStatus{} }, "", "the host cluster has not seen", ""},
		"there is no StatefulSet":   {func(e *rollingEtcd) { e.set.Name = "other" }, "", "", ""},
		"somebody else replaces them": {func(e *rollingEtcd) {
			e.set.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		}, "", "", ""},
		"etcd does not answer":            {func(e *rollingEtcd) { e.health.Err = errRefused }, "", "the cluster does not answer: connection refused", ""},
		"not all have joined":             {func(e *rollingEtcd) { e.bootstrapped = false }, "", "not all members have joined", ""},
		"their data goes with their pods": {func(e *rollingEtcd) { e.storage = controlplanev1.EtcdStorageEmptyDir }, "", "members keep their data in their pods", ""},
		"there is no data yet that could go": {func(e *rollingEtcd) {
			e.storage, e.bootstrapped = controlplanev1.EtcdStorageEmptyDir, false
			unready(e, 0)
		}, podName(names.EtcdData, 0), "is replaced", ""},
		"one is a learner":    {func(e *rollingEtcd) { e.health.Members[1].Learner = true }, "", "its members change", ""},
		"one is not listed":   {func(e *rollingEtcd) { e.health.Members[1].Listed = false }, "", "member blue-etcd-data-1 knows no leader", ""},
		"one knows no leader": {func(e *rollingEtcd) { e.health.Members[1].Follows = false }, "", "member blue-etcd-data-1 knows no leader", ""},
		"all report an alarm": {func(e *rollingEtcd) { e.health.Members[0].Err, e.health.Members[1].Err = errRefused, errRefused }, podName(names.EtcdData, 2), "is replaced", ""},
		"one has no pod":      {func(e *rollingEtcd) { e.pods = e.pods[:2] }, "", "member blue-etcd-data-2 has no pod yet", ""},
		"one is down":         {func(e *rollingEtcd) { unready(e, 0) }, podName(names.EtcdData, 0), "is replaced", ""},
		"the only one is not the first": {func(e *rollingEtcd) {
			e.set.Spec.Replicas, e.set.Spec.Ordinals = ptr.To[int32](1), &appsv1.StatefulSetOrdinals{Start: 2}
			e.pods = e.pods[2:]
		}, podName(names.EtcdData, 2), "is replaced", ""},
		"a pod too many is there": {func(e *rollingEtcd) { e.set.Spec.Replicas = ptr.To[int32](1) }, podName(names.EtcdData, 0), "is replaced", ""},
		"the host of one is away": {func(e *rollingEtcd) {
			unready(e, 0)
			e.nodes = []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n0"}, Status: corev1.NodeStatus{
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}}}}
		}, "", "the host cluster does not hear from n0, where member blue-etcd-data-0 is", ""},
		"the host of one is there": {func(e *rollingEtcd) {
			unready(e, 0)
			e.nodes = []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n0"}}}
		}, podName(names.EtcdData, 0), "is replaced", ""},
		"the host of one takes no pods": {func(e *rollingEtcd) {
			e.nodes = []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n2"}, Spec: corev1.NodeSpec{Unschedulable: true}}}
		}, podName(names.EtcdData, 1), "is replaced", ""},
		"the host of the only one that is not up to date takes no pods": {func(e *rollingEtcd) {
			e.nodes = []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n2"}, Spec: corev1.NodeSpec{Unschedulable: true}}}
			e.pods[0].Labels[appsv1.ControllerRevisionHashLabelKey], e.pods[1].Labels[appsv1.ControllerRevisionHashLabelKey] = "new", "new"
		}, "", "member blue-etcd-data-2 is on host node n2, which is cordoned, and its new pod might not start: uncordon the host node", ""},
		"they were ready for long enough":     {func(e *rollingEtcd) { e.set.Spec.MinReadySeconds = 30 }, podName(names.EtcdData, 2), "is replaced", ""},
		"they were not ready for long enough": {func(e *rollingEtcd) { e.set.Spec.MinReadySeconds = 31 }, "", "is not ready", ""},
		"it is another pod by now": {func(e *rollingEtcd) {
			e.refused = apierrors.NewConflict(pods, "", errors.New("another UID"))
		}, podName(names.EtcdData, 2), "somebody else deleted the pod", ""},
		"it is gone by now":       {func(e *rollingEtcd) { e.refused = apierrors.NewNotFound(pods, "") }, podName(names.EtcdData, 2), "somebody else deleted the pod", ""},
		"it may not be deleted":   {func(e *rollingEtcd) { e.refused = errRefused }, podName(names.EtcdData, 2), "", "delete pod team/blue-etcd-data-2"},
		"its labels were removed": {func(e *rollingEtcd) { e.pods[0].Labels = nil }, "", "member blue-etcd-data-0 has no pod yet", ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := newRollingEtcd(now)
			test.is(e)
			deleted, says, err := e.roll(t, now)
			var want []string
			if test.replace != "" {
				want = []string{test.replace}
			}
			if !slices.Equal(deleted, want) || !strings.Contains(says, test.says) || (says == "") != (test.says == "") {
				t.Errorf("it deletes %v and says %q", deleted, says)
			}
			if (err == nil) != (test.fails == "") || err != nil && !strings.Contains(err.Error(), test.fails) {
				t.Errorf("it fails with %v", err)
			}
		})
	}
}

// Else what members forward to the leader at that moment would be lost.
func TestALeaderGivesItsLeadAwayBeforeItIsReplaced(t *testing.T) {
	now := time.Now()
	e := newRollingEtcd(now)
	for i := range e.pods[1:] {
		e.pods[i+1].Labels[appsv1.ControllerRevisionHashLabelKey] = "new"
	}
	for _, step := range []struct {
		leads         int
		moves         []string
		deleted, says string
	}{
		{0, []string{"blue-etcd-data-1"}, "", "leads now: blue-etcd-data-1"},
		{1, nil, "blue-etcd-data-0", "member blue-etcd-data-0 is replaced"},
	} {
		for i := range e.health.Members {
			e.health.Members[i].Leader = i == step.leads
		}
		e.moved = nil
		deleted, says, err := e.roll(t, now)
		if err != nil || says != step.says || strings.Join(deleted, " ") != step.deleted || !slices.Equal(e.moved, step.moves) {
			t.Errorf("while %d leads it deletes %v, moves the lead to %v, and says %q: %v", step.leads, deleted, e.moved, says, err)
		}
	}
}

// A member that was deleted answers until it has stopped.
func TestAMemberThatStopsIsNotCountedOnForAChangeOfMembers(t *testing.T) {
	e := newRollingEtcd(time.Now())
	for i := range e.pods {
		e.pods[i].Spec.Containers = []corev1.Container{{Name: "etcd"}}
	}
	e.pods[1].DeletionTimestamp, e.pods[1].Finalizers = ptr.To(metav1.Now()), []string{"kok.cluster.x-k8s.io/test"}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: names.Config("blue", names.EtcdData)}}
	host := fake.NewClientBuilder().WithObjects(config, &e.pods[0], &e.pods[1], &e.pods[2]).Build()
	state, err := (&Operator{}).cluster(t.Context(), newTask(host)).membersState(t.Context(), e.health)
	if err != nil {
		t.Fatal(err)
	}
	for _, member := range state.Members {
		if member.Healthy != (member.Ordinal != 1) {
			t.Errorf("member %s is healthy: %t", member.Name, member.Healthy)
		}
	}
}
