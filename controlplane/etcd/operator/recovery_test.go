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

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
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
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/membership"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/recovery"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// now is when tests of replacements take place.
var now = time.Date(2026, 4, 5, 6, 7, 8, 0, time.UTC)

// hostLabel selects the host nodes of the control plane.
const hostLabel = "example.com/control-planes"

// losingEtcd is all that a replacement depends on: three members that work and are up to date, each on a host node that its
// volume is tied to. The first leads, and a fourth host node is spare.
type losingEtcd struct {
	*rollingEtcd
	claims   []corev1.PersistentVolumeClaim
	volumes  []corev1.PersistentVolume
	services []corev1.Service
	config   *corev1.ConfigMap
	// allReady is what the reconcile saw of the pods, and desired how many members there shall be.
	allReady bool
	desired  int32
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
	e := &losingEtcd{rollingEtcd: newRollingEtcd(now), allReady: true, desired: 3, events: events.NewFakeRecorder(10)}
	e.set.Status.UpdateRevision = "old"
	e.config = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: names.Config("blue", names.EtcdData)}}
	for i := range 3 {
		e.health.Members[i].ID, e.health.Members[i].Started = uint64(100+i), true
		member := e.health.Members[i].Name
		labels := e.pods[i].Labels
		e.pods[i].CreationTimestamp = metav1.NewTime(now.Add(-time.Hour))
		e.pods[i].Status.Phase = corev1.PodRunning
		e.pods[i].Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: etcdcomponent.Claim(member)}}}}
		volume := corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "volume-" + member}}
		volume.Spec.NodeAffinity = onNodes(fmt.Sprintf("n%d", i))
		claim := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: etcdcomponent.Claim(member), UID: types.UID("claim-of-" + member), Labels: labels,
			Annotations: map[string]string{selectedNode: fmt.Sprintf("n%d", i)},
		}}
		claim.Spec.VolumeName, claim.Status.Phase = volume.Name, corev1.ClaimBound
		e.volumes, e.claims = append(e.volumes, volume), append(e.claims, claim)
		e.services = append(e.services, corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: member, Labels: labels}})
	}
	for i := range 4 {
		e.nodes = append(e.nodes, readyNode(fmt.Sprintf("n%d", i)))
	}
	return e
}

func readyNode(name string) corev1.Node {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{hostLabel: "", corev1.LabelHostname: name}}}
	node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionUnknown}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue},
	}
	return node
}

// onNodes is the affinity of a volume that only nodes with some names can use.
func onNodes(nodes ...string) *corev1.VolumeNodeAffinity {
	return withTerms(corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: nodes},
	}})
}

func withTerms(terms ...corev1.NodeSelectorTerm) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: terms}}
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

// record notes a replacement of a member that began a while ago.
func (e *losingEtcd) record(t *testing.T, i int, record recovery.Replacement) {
	t.Helper()
	raw, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	e.services[i].Annotations = map[string]string{recovery.Annotation: string(raw)}
}

// begun has a member lost whose replacement has begun a minute ago: its volume is gone.
func (e *losingEtcd) begun(t *testing.T, i int) {
	t.Helper()
	e.record(t, i, recovery.Replacement{Of: e.health.Members[i].ID, Volume: string(e.claims[i].UID), Begun: now.Add(-time.Minute), Try: 1})
	e.down(i)
	e.claims[i].Status.Phase = corev1.ClaimLost
}

// removed has a member that was removed a minute ago, for the replacement that then began.
func (e *losingEtcd) removed(t *testing.T, i int) {
	t.Helper()
	e.begun(t, i)
	e.unlist(i)
}

// renewed has the member removed, and its pod and volume new.
func (e *losingEtcd) renewed(t *testing.T, i int) {
	t.Helper()
	e.removed(t, i)
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
	e.host = fake.NewClientBuilder().WithStatusSubresource(&corev1.Pod{}).WithObjects(objects...).Build()
	task := newTask(interceptor.NewClient(e.host, e.noting()))
	task.Input.Spec.Hosting.NodeSelector = map[string]string{hostLabel: ""}
	task.Input.Spec.Etcd.Data.Replicas, task.Input.Spec.Etcd.Data.Storage.Type = ptr.To(e.desired), e.storage
	task.Bootstrapped, task.AllReady = e.bootstrapped, e.allReady
	reached := Etcd{
		Check: func(context.Context, map[string]etcd.Address, *tls.Config) (*etcd.Health, error) {
			health := *e.health
			health.Members = slices.Clone(health.Members)
			return &health, nil
		},
		Change: func(_ context.Context, kind membership.Kind, name string, _ *etcd.Health, _ map[string]etcd.Address, _ *tls.Config) error {
			e.changes = append(e.changes, fmt.Sprintf("%s %s", kind, name))
			return e.changeFails
		},
	}
	return New(reached, clocktesting.NewFakeClock(now), e.events).cluster(t.Context(), task)
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

// member is what the operator knows of a member.
func (e *losingEtcd) member(t *testing.T, i int) (recovery.Member, error) {
	t.Helper()
	state, err := e.state(t)
	if err != nil {
		return recovery.Member{}, err
	}
	return state.Member(i), nil
}

func (e *losingEtcd) state(t *testing.T) (recovery.State, error) {
	t.Helper()
	c := e.cluster(t)
	found, err := c.belongings(t.Context())
	if err != nil {
		return recovery.State{}, err
	}
	return c.recoveryState(t.Context(), e.health, found)
}

func TestWhatIsKnownOfMembers(t *testing.T) {
	type members = []recovery.Member
	for name, test := range map[string]struct {
		is   func(*losingEtcd)
		want func(*recovery.State)
	}{
		"all is well":          {func(*losingEtcd) {}, func(*recovery.State) {}},
		"another one leads":    {func(e *losingEtcd) { e.health.Members[0].Leader, e.health.Members[2].Leader = false, true }, func(s *recovery.State) { s.Members[0].Leader, s.Members[2].Leader = false, true }},
		"one is a learner":     {func(e *losingEtcd) { e.health.Members[1].Learner = true }, func(s *recovery.State) { s.Members[1].Learner = true }},
		"one knows no leader":  {func(e *losingEtcd) { e.health.Members[1].Follows = false }, func(s *recovery.State) { s.Members[1].Follows = false }},
		"one reports an alarm": {func(e *losingEtcd) { e.health.Members[1].Err = errRefused }, func(*recovery.State) {}},
		"one does not answer":  {func(e *losingEtcd) { e.down(1) }, func(s *recovery.State) { s.Members[1].Healthy, s.Members[1].Follows = false, false }},
		"one is not listed": {func(e *losingEtcd) { e.unlist(1) }, func(s *recovery.State) {
			m := &s.Members[1]
			m.ID, m.Started, m.Healthy, m.Follows = 0, false, false, false
		}},
		"one that answers is stopping": {func(e *losingEtcd) { terminating(&e.pods[1]) }, func(s *recovery.State) { s.Members[1].Healthy, s.Members[1].Pod.Stopping = false, true }},
		"one has no data": {func(e *losingEtcd) {
			e.down(1)
			e.saw(1, facts.Empty, 3)
		}, func(s *recovery.State) {
			m := &s.Members[1]
			m.Healthy, m.Follows, m.Data, m.Pod.FailedStarts = false, false, recovery.Empty, 3
		}},
		"one has no pod":          {func(e *losingEtcd) { e.pods = slices.Delete(e.pods, 1, 2) }, func(s *recovery.State) { s.Members[1].Pod, s.Spare = recovery.Pod{}, 2 }},
		"one has no volume claim": {func(e *losingEtcd) { e.claims = slices.Delete(e.claims, 1, 2) }, func(s *recovery.State) { s.Members[1].Claim = recovery.Claim{} }},
		"claims and pods of others": {func(e *losingEtcd) { e.pods[1].Labels, e.claims[1].Labels = nil, nil }, func(s *recovery.State) {
			m := &s.Members[1]
			m.Pod, m.Claim, m.Host, s.Spare = recovery.Pod{}, recovery.Claim{}, recovery.Host{}, 2
		}},
		"their data goes with pods": {func(e *losingEtcd) { e.storage = controlplanev1.EtcdStorageEmptyDir }, func(s *recovery.State) { s.Volatile = true }},
		"there is nothing at the host": {func(e *losingEtcd) { e.set.Name, e.pods, e.claims, e.services, e.nodes = "other", nil, nil, nil, nil }, func(s *recovery.State) {
			s.Spare = 0
			for i := range s.Members {
				m := &s.Members[i]
				m.Pod, m.Claim, m.Host = recovery.Pod{}, recovery.Claim{}, recovery.Host{}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			want := recovery.State{Now: now, Spare: 1, Members: members{}}
			for i := range 3 {
				member := podName(names.EtcdData, int32(i))
				want.Members = append(want.Members, recovery.Member{
					Name: member, Ordinal: i, ID: uint64(100 + i), Started: true, Leader: i == 0, Healthy: true, Follows: true,
					Pod:   recovery.Pod{UID: member},
					Claim: recovery.Claim{UID: "claim-of-" + member, Tied: true},
					Host:  recovery.Host{Name: fmt.Sprintf("n%d", i)},
				})
			}
			test.want(&want)
			e := newLosingEtcd()
			test.is(e)
			if got, err := e.state(t); err != nil || !gocmp.Equal(got, want) {
				t.Errorf("%v; it differs from what was expected:\n%s", err, gocmp.Diff(want, got))
			}
			if len(e.writes) > 0 || len(e.changes) > 0 {
				t.Errorf("it writes %v and %v", e.writes, e.changes)
			}
		})
	}
}

func TestWhatIsKnownOfAPod(t *testing.T) {
	const member = "blue-etcd-data-1"
	ago := func(minutes time.Duration) metav1.Time { return metav1.NewTime(now.Add(-minutes * time.Minute)) }
	onNone := func(e *losingEtcd) {
		e.pods[1].Spec.NodeName, e.pods[1].Status.Phase = "", corev1.PodPending
		e.pods[1].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, LastTransitionTime: ago(5)}}
	}
	withoutClaim := func(e *losingEtcd) {
		e.claims = slices.Delete(e.claims, 1, 2)
		e.pods[1].Status.Phase = corev1.PodPending
		e.pods[1].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: ago(5)}}
	}
	for name, test := range map[string]struct {
		is   func(*losingEtcd)
		want recovery.Pod
	}{
		"it runs":                           {func(*losingEtcd) {}, recovery.Pod{UID: member}},
		"it has no node":                    {onNone, recovery.Pod{UID: member, PendingSince: ago(5).Time}},
		"nobody has looked for a node":      {func(e *losingEtcd) { onNone(e); e.pods[1].Status.Conditions = nil }, recovery.Pod{UID: member, PendingSince: ago(60).Time}},
		"it starts on its node":             {func(e *losingEtcd) { e.pods[1].Status.Phase = corev1.PodPending }, recovery.Pod{UID: member}},
		"it has a node and no volume claim": {withoutClaim, recovery.Pod{UID: member, PendingSince: ago(60).Time}},
		"it runs, and its claim is gone":    {func(e *losingEtcd) { e.claims = slices.Delete(e.claims, 1, 2) }, recovery.Pod{UID: member}},
		"it needs no claim":                 {func(e *losingEtcd) { withoutClaim(e); e.pods[1].Spec.Volumes = nil }, recovery.Pod{UID: member}},
		"it is stopping":                    {func(e *losingEtcd) { terminating(&e.pods[1]) }, recovery.Pod{UID: member, Stopping: true}},
		"it has another revision":           {func(e *losingEtcd) { e.pods[1].Labels[appsv1.ControllerRevisionHashLabelKey] = "new" }, recovery.Pod{UID: member, Outdated: true}},
		"the StatefulSet has a new one":     {func(e *losingEtcd) { e.set.Status.UpdateRevision = "new" }, recovery.Pod{UID: member, Outdated: true}},
		"the StatefulSet is missing":        {func(e *losingEtcd) { e.set.Name = "other" }, recovery.Pod{UID: member, Outdated: true}},
		"the StatefulSet is not observed":   {func(e *losingEtcd) { e.set.Generation++ }, recovery.Pod{UID: member, Outdated: true}},
		"etcd failed to start": {func(e *losingEtcd) {
			e.down(1)
			e.saw(1, facts.Present, 4)
		}, recovery.Pod{UID: member, FailedStarts: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLosingEtcd()
			test.is(e)
			if m, err := e.member(t, 1); err != nil || !gocmp.Equal(m.Pod, test.want) {
				t.Errorf("%v; it differs from what was expected:\n%s", err, gocmp.Diff(test.want, m.Pod))
			}
		})
	}
}

func TestWhatIsKnownOfAVolumeClaim(t *testing.T) {
	const claim = "claim-of-blue-etcd-data-1"
	noVolume := func(e *losingEtcd) { e.volumes = slices.Delete(e.volumes, 1, 2) }
	for name, test := range map[string]struct {
		is    func(*losingEtcd)
		want  recovery.Claim
		fails string
	}{
		"it is bound":                                   {is: func(*losingEtcd) {}, want: recovery.Claim{UID: claim, Tied: true}},
		"several nodes can use it":                      {is: func(e *losingEtcd) { e.volumes[1].Spec.NodeAffinity = nil }, want: recovery.Claim{UID: claim}},
		"it is stopping":                                {is: func(e *losingEtcd) { terminating(&e.claims[1]) }, want: recovery.Claim{UID: claim, Stopping: true, Tied: true}},
		"it is lost":                                    {is: func(e *losingEtcd) { e.claims[1].Status.Phase = corev1.ClaimLost }, want: recovery.Claim{UID: claim, Lost: true}},
		"it is lost and stopping":                       {is: func(e *losingEtcd) { e.claims[1].Status.Phase = corev1.ClaimLost; terminating(&e.claims[1]) }, want: recovery.Claim{UID: claim, Lost: true, Stopping: true}},
		"its PersistentVolume is gone":                  {is: noVolume, want: recovery.Claim{UID: claim, Lost: true}},
		"it is bound to a volume that is not there yet": {is: func(e *losingEtcd) { noVolume(e); e.claims[1].Status.Phase = corev1.ClaimPending }, want: recovery.Claim{UID: claim}},
		"it has no volume yet":                          {is: func(e *losingEtcd) { e.claims[1].Spec.VolumeName, e.claims[1].Status.Phase = "", corev1.ClaimPending }, want: recovery.Claim{UID: claim}},
		"nobody can read its volume": {is: func(e *losingEtcd) {
			e.before = func(request string) error {
				if request == "get PersistentVolume volume-blue-etcd-data-1" {
					return errRefused
				}
				return nil
			}
		}, fails: "read PersistentVolume volume-blue-etcd-data-1 of claim team/kok-data-blue-etcd-data-1: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLosingEtcd()
			test.is(e)
			m, err := e.member(t, 1)
			if m.Claim != test.want {
				t.Errorf("it is %+v", m.Claim)
			}
			expectError(t, err, test.fails)
		})
	}
}

func expectError(t *testing.T, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("it fails with %v", err)
	}
}

func TestTheRecordOfAReplacement(t *testing.T) {
	record := recovery.Replacement{Of: 101, Volume: "claim-of-blue-etcd-data-1", Begun: now.Add(-time.Minute), Try: 2}
	const raw = `{"of":101,"volume":"claim-of-blue-etcd-data-1","begun":"2026-04-05T06:06:08Z","try":2}`
	for name, test := range map[string]struct {
		is    func(*losingEtcd)
		want  recovery.Replacement
		fails string
	}{
		"there is none":           {is: func(*losingEtcd) {}},
		"it was emptied":          {is: func(e *losingEtcd) { e.services[1].Annotations = map[string]string{recovery.Annotation: ""} }},
		"there is one":            {is: func(e *losingEtcd) { e.services[1].Annotations = map[string]string{recovery.Annotation: raw} }, want: record},
		"it is of another member": {is: func(e *losingEtcd) { e.services[0].Annotations = map[string]string{recovery.Annotation: raw} }},
		"there is no Service":     {is: func(e *losingEtcd) { e.services = slices.Delete(e.services, 1, 2) }},
		"a newer manager says more": {is: func(e *losingEtcd) {
			e.services[1].Annotations = map[string]string{recovery.Annotation: strings.Replace(raw, "{", `{"by":"me",`, 1)}
		}, want: record},
		"it is damaged": {is: func(e *losingEtcd) { e.services[1].Annotations = map[string]string{recovery.Annotation: raw[:20]} },
			fails: "read the annotation kok.cluster.x-k8s.io/etcd-replacement of Service team/blue-etcd-data-1: unexpected end of JSON input: remove it"},
		"it has another form": {is: func(e *losingEtcd) { e.services[1].Annotations = map[string]string{recovery.Annotation: `"now"`} },
			fails: "of Service team/blue-etcd-data-1: "},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLosingEtcd()
			test.is(e)
			m, err := e.member(t, 1)
			if !gocmp.Equal(m.Last, test.want) {
				t.Errorf("it is %+v", m.Last)
			}
			expectError(t, err, test.fails)
		})
	}
}
