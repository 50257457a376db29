package operator

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/hostnodes"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/hostnodes/hostnodestest"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/membership"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/recovery"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// now is when tests of replacements take place.
var now = time.Date(2026, 4, 5, 6, 7, 8, 0, time.UTC)

// losingEtcd is all that a replacement depends on: three members that work and are up to date, each on a host node that its
// volume is tied to. The first leads, and a fourth host node is spare.
type losingEtcd struct {
	*rollingEtcd
	claims   []corev1.PersistentVolumeClaim
	volumes  []corev1.PersistentVolume
	services []corev1.Service
	config   *corev1.ConfigMap
	// allReady and cordoned are what the reconcile saw of the pods and their host nodes.
	allReady bool
	cordoned []string
	// before is called before each request to the host cluster, such as "delete Pod blue-etcd-data-1". Its error ends it.
	before func(request string) error
	// changeFails is how a change of the members ends.
	changeFails error

	host client.WithWatch
	// reads and writes are requests to the host cluster, and changes those to etcd.
	reads, writes, changes []string
	events                 *events.FakeRecorder
}

func newLosingEtcd() *losingEtcd {
	e := &losingEtcd{rollingEtcd: newRollingEtcd(now), allReady: true, events: events.NewFakeRecorder(10)}
	e.set.Status.UpdateRevision = "old"
	e.config = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: names.Config("blue", names.EtcdData)}, Data: map[string]string{}}
	for i := range 3 {
		e.health.Members[i].ID, e.health.Members[i].Started = uint64(100+i), true
		member := e.health.Members[i].Name
		labels := e.pods[i].Labels
		e.config.Data[member+".yaml"] = "initial-cluster-state: existing"
		e.pods[i].CreationTimestamp = metav1.NewTime(now.Add(-time.Hour))
		e.pods[i].Status.Phase = corev1.PodRunning
		e.pods[i].Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: etcdcomponent.Claim(member)}}}}
		volume := corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "volume-" + member}}
		volume.Spec.NodeAffinity = hostnodestest.OnNodes(fmt.Sprintf("n%d", i))
		claim := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: etcdcomponent.Claim(member), UID: types.UID("claim-of-" + member), Labels: labels,
			Annotations: map[string]string{hostnodes.SelectedNode: fmt.Sprintf("n%d", i)},
		}}
		claim.Spec.VolumeName, claim.Status.Phase = volume.Name, corev1.ClaimBound
		e.volumes, e.claims = append(e.volumes, volume), append(e.claims, claim)
		e.services = append(e.services, corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: member, Labels: labels}})
	}
	for i := range 4 {
		e.nodes = append(e.nodes, hostnodestest.Ready(fmt.Sprintf("n%d", i)))
	}
	return e
}

// down has a member not answer, and its pod not be ready.
func (e *losingEtcd) down(i int) {
	m := &e.health.Members[i]
	m.Err, m.Answered, m.Follows, m.Leader = errRefused, false, false, false
	e.pods[i].Status.Conditions[0].Status = corev1.ConditionFalse
	e.allReady = false
}

// unlist has another hand remove a member from etcd's list.
func (e *losingEtcd) unlist(i int) {
	e.down(i)
	m := &e.health.Members[i]
	m.ID, m.Listed, m.Started = 0, false, false
}

// saw has prepare say what the data directory of a member is, before etcd failed to start there some times.
func (e *losingEtcd) saw(i int, state facts.State, failed int32) {
	e.pods[i].Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: facts.Container, State: ended(0, fmt.Sprintf(`{"state":%q}`, state))}}
	e.pods[i].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: etcdcomponent.Container, State: ended(1, ""), RestartCount: failed - 1}}
}

// ended is the state of a container that ended a minute ago.
func ended(code int32, message string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Message: message, StartedAt: metav1.NewTime(now), FinishedAt: metav1.NewTime(now),
	}}
}

// early has the second member learn. Its file has let it join for a minute, its pod is older, and kubelet waits before it starts etcd again.
func (e *losingEtcd) early() {
	const i = 1
	e.down(i)
	m := &e.health.Members[i]
	m.Learner, m.Started = true, false
	e.config.Data[m.Name+".yaml"] = "initial-cluster-state: existing\ninitial-cluster: blue-etcd-data-0=https://a,blue-etcd-data-1=https://b"
	e.applied(metav1.ManagedFieldsEntry{Manager: names.FieldManager, Operation: metav1.ManagedFieldsOperationApply, Time: ptr.To(metav1.NewTime(now.Add(-time.Minute)))})
	e.pods[i].Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: etcdcomponent.Container, RestartCount: 3, LastTerminationState: ended(1, ""),
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
	}}
}

// applied has the files of members changed by somebody.
func (e *losingEtcd) applied(by ...metav1.ManagedFieldsEntry) {
	for i := range by {
		by[i].APIVersion, by[i].FieldsType, by[i].FieldsV1 = "v1", "FieldsV1", metav1.NewFieldsV1(`{"f:data":{}}`)
	}
	e.config.ManagedFields = by
}

// record notes a replacement of a member that began a while ago.
func (e *losingEtcd) record(t *testing.T, i int, record recovery.Replacement) {
	t.Helper()
	raw, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	e.services[i].Annotations = map[string]string{recovery.Annotation: string(raw)}
}

// begun has the second member lost, whose replacement has begun a minute ago: its volume is gone.
func (e *losingEtcd) begun(t *testing.T) {
	t.Helper()
	const i = 1
	e.record(t, i, recovery.Replacement{Of: e.health.Members[i].ID, Volume: string(e.claims[i].UID), Begun: now.Add(-time.Minute), Try: 1})
	e.down(i)
	e.claims[i].Status.Phase = corev1.ClaimLost
}

// removed has the second member removed a minute ago, for the replacement that then began.
func (e *losingEtcd) removed(t *testing.T) {
	t.Helper()
	const i = 1
	e.begun(t)
	e.unlist(i)
}

// renewed has the second member removed, and its pod and volume new.
func (e *losingEtcd) renewed(t *testing.T) {
	t.Helper()
	const i = 1
	e.removed(t)
	e.claims[i].UID, e.claims[i].Status.Phase = "new", corev1.ClaimBound
	e.pods[i].UID = "new"
}

// terminating is an object that was deleted, and that a finalizer holds.
func terminating(object client.Object) {
	object.SetDeletionTimestamp(ptr.To(metav1.NewTime(now)))
	object.SetFinalizers([]string{"kok.cluster.x-k8s.io/test"})
}

// cluster is the etcd, and its host cluster, of which every request is noted.
func (e *losingEtcd) cluster(t *testing.T) *cluster {
	t.Helper()
	objects := []client.Object{e.set, e.config}
	for i := range e.pods {
		objects = append(objects, &e.pods[i])
	}
	for i := range e.claims {
		objects = append(objects, &e.claims[i])
	}
	for i := range e.volumes {
		objects = append(objects, &e.volumes[i])
	}
	for i := range e.services {
		objects = append(objects, &e.services[i])
	}
	for i := range e.nodes {
		objects = append(objects, &e.nodes[i])
	}
	e.host = newHost().WithReturnManagedFields().WithStatusSubresource(&corev1.Pod{}).WithObjects(objects...).Build()
	task := newTask(interceptor.NewClient(e.host, e.noting()))
	task.Input.Spec.Hosting.NodeSelector = hostnodestest.Selector()
	task.Input.Spec.Etcd.Data.Storage.Type = e.storage
	task.Bootstrapped, task.AllReady, task.Cordoned = e.bootstrapped, e.allReady, e.cordoned
	reached := Etcd{
		Check: func(context.Context, map[string]etcd.Address, *tls.Config) (*etcd.Health, error) {
			health := *e.health
			health.Members = slices.Clone(health.Members)
			return &health, nil
		},
		Change: func(_ context.Context, kind membership.Kind, name string, _ *etcd.Health, _ map[string]etcd.Address, _ *tls.Config) error {
			e.changes = append(e.changes, fmt.Sprintf("%s %s", kind, name))
			if e.changeFails == nil {
				e.change(kind, name)
			}
			return e.changeFails
		},
	}
	return New(reached, clocktesting.NewFakeClock(now), e.events).cluster(t.Context(), task)
}

// change does to the members what etcd does.
func (e *losingEtcd) change(kind membership.Kind, name string) {
	for i := range e.health.Members {
		switch m := &e.health.Members[i]; {
		case kind == membership.MoveLeader:
			m.Leader = m.Name == name
		case m.Name != name:
		case kind == membership.Remove:
			m.ID, m.Listed, m.Started = 0, false, false
		case kind == membership.AddLearner:
			m.ID, m.Listed, m.Learner = uint64(200+i), true, true
		case kind == membership.Promote:
			m.Learner = false
		}
	}
}

// noting notes requests. As an API server does, and the fake one does not, it refuses to delete another object than the one
// that was meant.
func (e *losingEtcd) noting() interceptor.Funcs {
	note := func(to *[]string, verb string, object runtime.Object, name string) error {
		kind := cmp.Or(object.GetObjectKind().GroupVersionKind().Kind, strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1."))
		request := strings.TrimSpace(fmt.Sprintf("%s %s %s", verb, kind, name))
		*to = append(*to, request)
		if e.before == nil {
			return nil
		}
		return e.before(request)
	}
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if err := note(&e.reads, "get", object, key.Name); err != nil {
				return err
			}
			return c.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if err := note(&e.reads, "list", list, ""); err != nil {
				return err
			}
			return c.List(ctx, list, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if err := note(&e.writes, "patch", object, object.GetName()); err != nil {
				return err
			}
			return c.Patch(ctx, object, patch, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			if err := note(&e.writes, "delete", object, object.GetName()); err != nil {
				return err
			}
			there := object.DeepCopyObject().(client.Object)
			if err := c.Get(ctx, client.ObjectKeyFromObject(object), there); err != nil {
				return err
			}
			meant := (&client.DeleteOptions{}).ApplyOptions(options).Preconditions
			if meant != nil && meant.UID != nil && *meant.UID != there.GetUID() {
				return apierrors.NewConflict(schema.GroupResource{}, object.GetName(), fmt.Errorf("the UID is %s", there.GetUID()))
			}
			return c.Delete(ctx, object, options...)
		},
	}
}

// second is what the operator knows of the second member.
func (e *losingEtcd) second(t *testing.T) (recovery.Member, error) {
	t.Helper()
	state, err := e.state(t)
	if err != nil {
		return recovery.Member{}, err
	}
	return state.Member(1), nil
}

func (e *losingEtcd) state(t *testing.T) (recovery.State, error) {
	t.Helper()
	c := e.cluster(t)
	found, err := c.belongings(t.Context())
	if err != nil {
		return recovery.State{}, err
	}
	hosts := c.hosts()
	state, err := c.membersBelongings(t.Context(), e.health, found, hosts)
	if err == nil {
		state.Spare, err = hosts.Spare(t.Context(), found.pods, found.set)
	}
	return state, err
}
