package operator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/byhand"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/recovery"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

func TestWhatIsKnownOfMembers(t *testing.T) {
	type members = []recovery.Member
	for name, test := range map[string]struct {
		is   func(*losingEtcd)
		want func(*recovery.State)
	}{
		"all is well":         {func(*losingEtcd) {}, func(*recovery.State) {}},
		"another one leads":   {func(e *losingEtcd) { e.health.Members[0].Leader, e.health.Members[2].Leader = false, true }, func(s *recovery.State) { s.Members[0].Leader, s.Members[2].Leader = false, true }},
		"one is a learner":    {func(e *losingEtcd) { e.health.Members[1].Learner = true }, func(s *recovery.State) { s.Members[1].Learner = true }},
		"one knows no leader": {func(e *losingEtcd) { e.health.Members[1].Follows = false }, func(s *recovery.State) { s.Members[1].Follows = false }},
		"one lags behind": {func(e *losingEtcd) {
			for i := range e.health.Members {
				e.health.Members[i].Committed, e.health.Members[i].Applied = 5000, 5000
			}
			e.health.Members[1].Committed, e.health.Members[1].Applied = 3100, 3000
		}, func(s *recovery.State) { s.Members[1].Behind = 2000 }},
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
		"one has no pod":                   {func(e *losingEtcd) { e.pods = slices.Delete(e.pods, 1, 2) }, func(s *recovery.State) { s.Members[1].Pod, s.Spare = recovery.Pod{}, 2 }},
		"one has no volume claim":          {func(e *losingEtcd) { e.claims = slices.Delete(e.claims, 1, 2) }, func(s *recovery.State) { s.Members[1].Claim = recovery.Claim{} }},
		"the claim of one lost its labels": {func(e *losingEtcd) { e.claims[1].Labels = nil }, func(*recovery.State) {}},
		"a pod of others":                  {func(e *losingEtcd) { e.pods[1].Labels = nil }, func(s *recovery.State) { s.Members[1].Pod, s.Spare = recovery.Pod{}, 2 }},
		"their data goes with pods":        {func(e *losingEtcd) { e.storage = controlplanev1.EtcdStorageEmptyDir }, func(s *recovery.State) { s.Volatile = true }},
		"there is nothing at the host": {func(e *losingEtcd) { e.set.Name, e.pods, e.claims, e.services, e.nodes = "other", nil, nil, nil, nil }, func(s *recovery.State) {
			s.Spare = 0
			for i := range s.Members {
				m := &s.Members[i]
				m.Pod, m.Claim, m.Host = recovery.Pod{}, recovery.Claim{}, recovery.Host{}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			want := recovery.State{Now: now, Restores: "kok etcd restore-in-place blue --namespace team", TakesSnapshot: "kok etcd snapshot blue --namespace team", Spare: 1, Members: members{}}
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
			want.ByHand = byhand.Etcdctl{}
			for _, m := range want.Members {
				if m.ID != 0 && m.Follows && !m.Learner {
					want.ByHand[m.Name] = etcdctlIn(m.Name)
				}
			}
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
		"it came before the file that lets its learner join": {(*losingEtcd).early, recovery.Pod{UID: member, FailedStarts: 4, Early: true}},
		"it came in the same second": {func(e *losingEtcd) {
			e.early()
			e.pods[1].CreationTimestamp = ago(1)
		}, recovery.Pod{UID: member, FailedStarts: 4, Early: true}},
		"it came after that file": {func(e *losingEtcd) {
			e.early()
			e.pods[1].CreationTimestamp = metav1.NewTime(now.Add(-59 * time.Second))
		}, recovery.Pod{UID: member, FailedStarts: 4}},
		"it came early, and its learner has started since": {func(e *losingEtcd) {
			e.early()
			e.health.Members[1].Started = true
		}, recovery.Pod{UID: member, FailedStarts: 4}},
		"it came early, and its file does not let it join yet": {func(e *losingEtcd) {
			e.early()
			e.config.Data[member+".yaml"] = "initial-cluster-state: existing\ninitial-cluster: blue-etcd-data-1=https://b"
		}, recovery.Pod{UID: member, FailedStarts: 4}},
		"it came early, and etcd starts": {func(e *losingEtcd) {
			e.early()
			e.pods[1].Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		}, recovery.Pod{UID: member, FailedStarts: 3}},
		"somebody else changed the files last": {func(e *losingEtcd) {
			e.early()
			e.applied(
				metav1.ManagedFieldsEntry{Manager: names.FieldManager, Operation: metav1.ManagedFieldsOperationApply, Time: ptr.To(ago(90))},
				metav1.ManagedFieldsEntry{Manager: "kubectl-edit", Operation: metav1.ManagedFieldsOperationUpdate, Time: ptr.To(ago(1))},
			)
		}, recovery.Pod{UID: member, FailedStarts: 4}},
		"nobody knows when the files were changed": {func(e *losingEtcd) { e.early(); e.applied() }, recovery.Pod{UID: member, FailedStarts: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLosingEtcd()
			test.is(e)
			if m, err := e.second(t); err != nil || !gocmp.Equal(m.Pod, test.want) {
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
		"its volume names nodes in a way that nobody can read": {is: func(e *losingEtcd) {
			e.volumes[1].Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Operator = "Near"
		}, fails: "read the node affinity of PersistentVolume volume-blue-etcd-data-1: "},
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
			m, err := e.second(t)
			if m.Claim != test.want {
				t.Errorf("it is %+v", m.Claim)
			}
			expectError(t, err, test.fails)
		})
	}
}

// While a pod has a node, that is its host node, whatever its volume is tied to.
func TestTheHostNodeOfAPod(t *testing.T) {
	for name, test := range map[string]struct {
		is   func(*losingEtcd)
		want recovery.Host
	}{
		"it is there":                      {func(*losingEtcd) {}, recovery.Host{Name: "n1"}},
		"its volume is tied to another":    {func(e *losingEtcd) { e.pods[1].Spec.NodeName = "n3" }, recovery.Host{Name: "n3"}},
		"it is gone":                       {func(e *losingEtcd) { e.nodes = slices.Delete(e.nodes, 1, 2) }, recovery.Host{Name: "n1", Gone: true}},
		"it is no host node any more":      {func(e *losingEtcd) { e.nodes[1].Labels = nil }, recovery.Host{Name: "n1"}},
		"the pod has none, its volume has": {func(e *losingEtcd) { e.pods[1].Spec.NodeName = "" }, recovery.Host{Name: "n1"}},
		"it was cordoned a moment ago":     {func(e *losingEtcd) { e.nodes[1].Spec.Unschedulable = true }, recovery.Host{Name: "n1", CordonedSince: now}},
		"neither has one":                  {func(e *losingEtcd) { e.pods[1].Spec.NodeName, e.volumes[1].Spec.NodeAffinity = "", nil }, recovery.Host{}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLosingEtcd()
			test.is(e)
			if m, err := e.second(t); err != nil || m.Host != test.want {
				t.Errorf("%v; it is %+v", err, m.Host)
			}
		})
	}
}

func TestSpareHostNodesTakePodsOfTheStatefulSet(t *testing.T) {
	for name, test := range map[string]struct {
		set  string
		want int
	}{"it tolerates their taints": {"blue-etcd-data", 1}, "it is missing": {"other", 0}} {
		t.Run(name, func(t *testing.T) {
			e := newLosingEtcd()
			e.nodes[3].Spec.Taints = []corev1.Taint{{Key: "example.com/etcd", Value: "only", Effect: corev1.TaintEffectNoSchedule}}
			e.set.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
			e.set.Name = test.set
			if state, err := e.state(t); err != nil || state.Spare != test.want {
				t.Errorf("%v; %d are spare", err, state.Spare)
			}
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
			m, err := e.second(t)
			if !gocmp.Equal(m.Last, test.want) {
				t.Errorf("it is %+v", m.Last)
			}
			expectError(t, err, test.fails)
		})
	}
}
