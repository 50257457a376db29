package operator

import (
	"cmp"
	"context"
	"crypto/tls"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/membership"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// leavingEtcd is one of three members on nodes of their own, of which the first leads and is on a cordoned node.
type leavingEtcd struct {
	*rollingEtcd
	host   client.Client
	c      *cluster
	writes int
	moved  []string
	fails  error
	events *events.FakeRecorder
}

func newLeavingEtcd(t *testing.T, is func(*rollingEtcd)) *leavingEtcd {
	t.Helper()
	e := &leavingEtcd{rollingEtcd: newRollingEtcd(time.Now()), events: events.NewFakeRecorder(10)}
	for i := range e.pods {
		e.nodes = append(e.nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: e.pods[i].Spec.NodeName}, Spec: corev1.NodeSpec{Unschedulable: i == 0}})
	}
	is(e.rollingEtcd)
	builder := fake.NewClientBuilder().WithStatusSubresource(&corev1.Pod{}).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, what string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			e.writes++
			return c.SubResource(what).Patch(ctx, object, patch, options...)
		},
	})
	for i := range e.pods {
		builder.WithObjects(&e.pods[i])
	}
	for i := range e.nodes {
		builder.WithObjects(&e.nodes[i])
	}
	e.host = builder.Build()
	reached := Etcd{
		Check: func(context.Context, map[string]etcd.Address, *tls.Config) (*etcd.Health, error) {
			health := *e.health
			health.Members = slices.Clone(health.Members)
			return &health, nil
		},
		Change: func(_ context.Context, kind membership.Kind, name string, _ *etcd.Health, _ map[string]etcd.Address, _ *tls.Config) error {
			if kind != membership.MoveLeader || e.fails != nil {
				return e.fails
			}
			e.moved = append(e.moved, name)
			for i := range e.health.Members {
				e.health.Members[i].Leader = e.health.Members[i].Name == name
			}
			return nil
		},
	}
	task := newTask(e.host)
	task.Bootstrapped = e.bootstrapped
	e.c = New(reached, clocktesting.NewFakeClock(time.Now()), e.events).cluster(t.Context(), task)
	return e
}

// says are the reasons that pods give for what they say of a drain, by ordinal; empty for a pod that says nothing.
func (e *leavingEtcd) says(t *testing.T) []string {
	t.Helper()
	var reasons []string
	for i := range e.pods {
		pod := &corev1.Pod{}
		if err := e.host.Get(t.Context(), client.ObjectKeyFromObject(&e.pods[i]), pod); err != nil {
			t.Fatal(err)
		}
		reason := ""
		if is := hostpods.Condition(pod, controlplanev1.PodReadyToDrain); is != nil {
			reason = string(is.Status) + " " + is.Reason
		}
		reasons = append(reasons, reason)
	}
	return reasons
}

func TestACordonedNodeAndItsMemberOfEtcd(t *testing.T) {
	for name, test := range map[string]struct {
		is      func(*rollingEtcd)
		changed bool
		fails   error
		// desired is how many members shall be; zero for three.
		desired int32
		moved   string
		says    []string
		lead    string
	}{
		"it leads":           {is: func(*rollingEtcd) {}, moved: podName(names.EtcdData, 1), says: []string{"True NotLeading", "", ""}},
		"it does not lead":   {is: func(e *rollingEtcd) { e.health.Members[0].Leader, e.health.Members[1].Leader = false, true }, says: []string{"True NotLeading", "", ""}},
		"none is cordoned":   {is: func(e *rollingEtcd) { e.nodes[0].Spec.Unschedulable = false }, says: []string{"", "", ""}},
		"its node is gone":   {is: func(e *rollingEtcd) { e.nodes = e.nodes[1:] }, says: []string{"", "", ""}},
		"another one is too": {is: func(e *rollingEtcd) { e.nodes[1].Spec.Unschedulable = true }, moved: podName(names.EtcdData, 2), says: []string{"True NotLeading", "True NotLeading", ""}},
		"the others are too": {is: func(e *rollingEtcd) { e.nodes[1].Spec.Unschedulable, e.nodes[2].Spec.Unschedulable = true, true },
			says: []string{"False Leads", "True NotLeading", "True NotLeading"}, lead: "no other member that works"},
		"etcd does not answer": {is: func(e *rollingEtcd) { e.health.Err = errRefused }, says: []string{"False LeaderUnknown", "", ""}, lead: "connection refused"},
		"nobody leads":         {is: func(e *rollingEtcd) { e.health.Members[0].Leader = false }, says: []string{"False LeaderUnknown", "", ""}},
		"members join":         {is: func(e *rollingEtcd) { e.bootstrapped = false }, says: []string{"False Leads", "", ""}, lead: "have joined yet"},
		"a step was just made": {is: func(*rollingEtcd) {}, changed: true, says: []string{"False Leads", "", ""}, lead: "its members change"},
		"etcd refuses":         {is: func(*rollingEtcd) {}, fails: errRefused, says: []string{"False Leads", "", ""}, lead: "connection refused"},
		"it is the only one": {is: func(e *rollingEtcd) { e.health.Members = e.health.Members[:1] }, desired: 1,
			says: []string{"True OnlyMember", "", ""}},
		"it is the only one of three that shall be": {is: func(e *rollingEtcd) { e.health.Members = e.health.Members[:1] },
			says: []string{"False FewerVote", "", ""}},
		"another one leads, and the third is missing": {is: func(e *rollingEtcd) {
			e.health.Members[0].Leader, e.health.Members[1].Leader, e.health.Members = false, true, e.health.Members[:2]
		}, says: []string{"False FewerVote", "", ""}},
		"another one leads, and the third learns": {is: func(e *rollingEtcd) {
			e.health.Members[0].Leader, e.health.Members[1].Leader, e.health.Members[2].Learner = false, true, true
		}, says: []string{"False FewerVote", "", ""}},
		"another one leads, and the third does not answer": {is: func(e *rollingEtcd) {
			e.health.Members[0].Leader, e.health.Members[1].Leader, e.health.Members[2].Answered = false, true, false
		}, says: []string{"False FewerVote", "", ""}},
		"another one leads, and the one on the node does not answer": {is: func(e *rollingEtcd) {
			e.health.Members[0].Leader, e.health.Members[1].Leader, e.health.Members[0].Answered = false, true, false
		}, says: []string{"True NotLeading", "", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLeavingEtcd(t, test.is)
			e.fails = test.fails
			e.c.Input.Spec.Etcd.Data.Replicas = ptr.To(cmp.Or(test.desired, 3))
			report := &Report{Health: e.health}
			e.c.prepareDrain(t.Context(), report, test.changed)
			var moved []string
			if test.moved != "" {
				moved = []string{test.moved}
			}
			if says := e.says(t); !slices.Equal(e.moved, moved) || !slices.Equal(says, test.says) {
				t.Errorf("%v leads, and the pods say %q", e.moved, says)
			}
			if !strings.Contains(report.Lead, test.lead) || (report.Lead == "") != (test.lead == "") || len(e.events.Events) != len(moved) {
				t.Errorf("it says %q, with %d events", report.Lead, len(e.events.Events))
			}
			writes := e.writes
			e.c.prepareDrain(t.Context(), &Report{Health: report.Health}, test.changed)
			if e.writes != writes || len(e.moved) != len(moved) {
				t.Errorf("once more it writes %d times, and moves the lead to %v", e.writes-writes, e.moved)
			}
		})
	}
}

func TestAPodSaysNothingOfADrainWhenItsNodeTakesPodsAgain(t *testing.T) {
	e := newLeavingEtcd(t, func(*rollingEtcd) {})
	e.c.prepareDrain(t.Context(), &Report{Health: e.health}, false)
	if says := e.says(t)[0]; says != "True NotLeading" {
		t.Errorf("while it is cordoned its pod says %q", says)
	}
	node := e.nodes[0].DeepCopy()
	if err := e.host.Patch(t.Context(), node, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"unschedulable":false}}`))); err != nil {
		t.Fatal(err)
	}
	e.c.prepareDrain(t.Context(), &Report{Health: e.health}, false)
	if e.says(t)[0] != "" || len(e.moved) != 1 {
		t.Errorf("its pod says %q, and the lead went to %v", e.says(t)[0], e.moved)
	}
}
