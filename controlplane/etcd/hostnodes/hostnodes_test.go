package hostnodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/hostnodes/hostnodestest"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/recovery"
)

// now is when tests take place.
var now = time.Date(2026, 4, 5, 6, 7, 8, 0, time.UTC)

var errRefused = errors.New("connection refused")

// fourHosts are four host nodes. A pod is on each of the first three, and the volume of the second pod can be used there only.
type fourHosts struct {
	nodes  []corev1.Node
	pods   []corev1.Pod
	set    *appsv1.StatefulSet
	volume *corev1.PersistentVolume
	claim  *corev1.PersistentVolumeClaim
	// refused is the request that the host cluster refuses, such as "get n1".
	refused string
}

func newFourHosts() *fourHosts {
	e := &fourHosts{
		set:    &appsv1.StatefulSet{},
		volume: &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "volume-1"}},
		claim:  &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{SelectedNode: "n1"}}},
	}
	e.volume.Spec.NodeAffinity = hostnodestest.OnNodes("n1")
	for i := range 4 {
		node := hostnodestest.Ready(fmt.Sprintf("n%d", i))
		e.nodes = append(e.nodes, node)
		if i < 3 {
			e.pods = append(e.pods, corev1.Pod{Spec: corev1.PodSpec{NodeName: node.Name}})
		}
	}
	return e
}

func (e *fourHosts) hosts() *Hosts {
	builder := fake.NewClientBuilder()
	for i := range e.nodes {
		builder.WithObjects(&e.nodes[i])
	}
	refuse := func(request string) error {
		if request == e.refused {
			return errRefused
		}
		return nil
	}
	live := interceptor.NewClient(builder.Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			return cmp.Or(refuse("get "+key.Name), c.Get(ctx, key, object, options...))
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			return cmp.Or(refuse(fmt.Sprintf("list %T", list)), c.List(ctx, list, options...))
		},
	})
	return New(live, hostnodestest.Selector(), clocktesting.NewFakePassiveClock(now))
}

func TestTheHostNodeThatAVolumeIsTiedTo(t *testing.T) {
	requires := func(key string, operator corev1.NodeSelectorOperator, values ...string) []corev1.NodeSelectorRequirement {
		return []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}
	}
	byField := func(node string) *corev1.VolumeNodeAffinity {
		return hostnodestest.WithTerms(corev1.NodeSelectorTerm{MatchFields: requires("metadata.name", corev1.NodeSelectorOpIn, node)})
	}
	unparsable := hostnodestest.WithTerms(corev1.NodeSelectorTerm{MatchExpressions: requires(corev1.LabelHostname, "Near", "n1")})
	affinity := func(affinity *corev1.VolumeNodeAffinity) func(*fourHosts) {
		return func(e *fourHosts) { e.volume.Spec.NodeAffinity = affinity }
	}
	// unmarked is a claim that no scheduler named a node for, as one that was bound by hand.
	unmarked := func(is func(*fourHosts)) func(*fourHosts) {
		return func(e *fourHosts) {
			is(e)
			e.claim.Annotations = nil
		}
	}
	withoutNode := func(e *fourHosts) { e.nodes = slices.Delete(e.nodes, 1, 2) }
	notHost := func(e *fourHosts) { delete(e.nodes[1].Labels, hostnodestest.Label) }
	unlabelled := func(e *fourHosts) { e.nodes[1].Labels = nil }
	on1, gone1, gone := recovery.Host{Name: "n1"}, recovery.Host{Name: "n1", Gone: true}, recovery.Host{Gone: true}
	for name, test := range map[string]struct {
		is    func(*fourHosts)
		tied  bool
		host  recovery.Host
		fails string
	}{
		"one host node can use it":                             {is: func(*fourHosts) {}, tied: true, host: on1},
		"one can, and it was made for none":                    {is: unmarked(func(*fourHosts) {}), tied: true, host: on1},
		"one can, and it was made for another":                 {is: func(e *fourHosts) { e.claim.Annotations[SelectedNode] = "n2" }, tied: true, host: on1},
		"one can, by its name as a field":                      {is: affinity(byField("n1")), tied: true, host: on1},
		"one can, by its name, that is gone":                   {is: unmarked(func(e *fourHosts) { affinity(byField("n1"))(e); withoutNode(e) }), tied: true, host: gone},
		"one of two is gone":                                   {is: func(e *fourHosts) { affinity(hostnodestest.OnNodes("n1", "n2"))(e); withoutNode(e) }, tied: true, host: recovery.Host{Name: "n2"}},
		"several can":                                          {is: affinity(hostnodestest.OnNodes("n1", "n2"))},
		"several can, by their names as fields":                {is: affinity(hostnodestest.WithTerms(byField("n1").Required.NodeSelectorTerms[0], byField("n2").Required.NodeSelectorTerms[0]))},
		"one can by its labels, and another by its name":       {is: affinity(hostnodestest.WithTerms(hostnodestest.OnNodes("n1").Required.NodeSelectorTerms[0], byField("n2").Required.NodeSelectorTerms[0]))},
		"every node can":                                       {is: affinity(nil)},
		"every node can, and it was made for one that is gone": {is: func(e *fourHosts) { affinity(nil)(e); withoutNode(e) }},
		"nothing is required":                                  {is: affinity(&corev1.VolumeNodeAffinity{})},
		"a zone is required": {is: func(e *fourHosts) {
			affinity(hostnodestest.WithTerms(corev1.NodeSelectorTerm{MatchExpressions: requires(corev1.LabelTopologyZone, corev1.NodeSelectorOpExists)}))(e)
			for i := range e.nodes {
				e.nodes[i].Labels[corev1.LabelTopologyZone] = "a"
			}
		}},
		"its node is gone":                  {is: withoutNode, tied: true, host: gone1},
		"its node has lost its labels":      {is: unlabelled, tied: true, host: on1},
		"its node is no host node any more": {is: notHost, tied: true, host: on1},
		"its node is out of service and has lost its labels": {is: func(e *fourHosts) {
			unlabelled(e)
			e.nodes[1].Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService}}
		}, tied: true, host: recovery.Host{Name: "n1", OutOfService: true}},
		"its node is gone, and it was made for none":             {is: unmarked(withoutNode), tied: true, host: gone},
		"its node has lost its labels, and it was made for none": {is: unmarked(unlabelled), tied: true, host: gone},
		"its node is no host node, and it was made for none":     {is: unmarked(notHost), tied: true, host: on1},
		"several nodes that are no host nodes can": {is: unmarked(func(e *fourHosts) {
			affinity(hostnodestest.OnNodes("n1", "n2"))(e)
			notHost(e)
			delete(e.nodes[2].Labels, hostnodestest.Label)
		})},
		"its affinity cannot be parsed":                                             {is: affinity(unparsable), fails: "read the node affinity of PersistentVolume volume-1: "},
		"its affinity cannot be parsed, and it was made for none":                   {is: unmarked(affinity(unparsable)), fails: "read the node affinity"},
		"its affinity cannot be parsed, and its node is gone":                       {is: func(e *fourHosts) { affinity(unparsable)(e); withoutNode(e) }, fails: "read the node affinity"},
		"its affinity cannot be parsed, and there is no node":                       {is: func(e *fourHosts) { affinity(unparsable)(e); e.nodes = nil }, fails: "read the node affinity"},
		"its affinity cannot be parsed, there is no node, and it was made for none": {is: unmarked(func(e *fourHosts) { affinity(unparsable)(e); e.nodes = nil }), fails: "read the node affinity"},
		"one term of it cannot be parsed": {is: func(e *fourHosts) {
			affinity(hostnodestest.WithTerms(hostnodestest.OnNodes("n1").Required.NodeSelectorTerms[0], unparsable.Required.NodeSelectorTerms[0]))(e)
			withoutNode(e)
		}, fails: "read the node affinity"},
		"it names a field that nodes do not have": {is: unmarked(affinity(hostnodestest.WithTerms(corev1.NodeSelectorTerm{MatchFields: requires("spec.name", corev1.NodeSelectorOpGt, "1")}))), fails: "read the node affinity"},
		"its node cannot be read":                 {is: func(e *fourHosts) { e.refused = "get n1" }, fails: "read host node n1: connection refused"},
		"host nodes cannot be listed": {is: func(e *fourHosts) {
			affinity(hostnodestest.OnNodes("n1", "n2"))(e)
			e.refused = "list *v1.NodeList"
		}, fails: "list the host nodes map[example.com/control-planes:]: connection refused"},
		"nodes cannot be listed": {is: unmarked(func(e *fourHosts) {
			withoutNode(e)
			e.refused = "list *v1.PartialObjectMetadataList"
		}), fails: "list the nodes that can use PersistentVolume volume-1: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newFourHosts()
			test.is(e)
			tied, host, err := e.hosts().Tied(t.Context(), e.volume, e.claim)
			if err == nil && (tied != test.tied || host != test.host) {
				t.Errorf("it is tied: %t, to %+v", tied, host)
			}
			if (err == nil) != (test.fails == "") || err != nil && !strings.Contains(err.Error(), test.fails) {
				t.Errorf("it fails with %v", err)
			}
		})
	}
}

func TestWhatAHostNodeSays(t *testing.T) {
	since := now.Add(-time.Hour)
	added := ptr.To(metav1.NewTime(since))
	for name, test := range map[string]struct {
		is   func(*corev1.Node)
		want recovery.Host
	}{
		"it is ready":            {func(*corev1.Node) {}, recovery.Host{}},
		"it is not ready":        {func(n *corev1.Node) { n.Status.Conditions[1].Status = corev1.ConditionFalse }, recovery.Host{}},
		"it is not heard from":   {func(n *corev1.Node) { n.Status.Conditions[1].Status = corev1.ConditionUnknown }, recovery.Host{Unheard: true}},
		"it never said anything": {func(n *corev1.Node) { n.Status.Conditions = nil }, recovery.Host{}},
		"it is out of service": {func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}}
		}, recovery.Host{OutOfService: true}},
		"it has other taints": {func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnreachable, TimeAdded: added}}
		}, recovery.Host{}},
		"it was cordoned a moment ago": {func(n *corev1.Node) { n.Spec.Unschedulable = true }, recovery.Host{CordonedSince: now}},
		"it has been cordoned": {func(n *corev1.Node) {
			n.Spec.Unschedulable, n.Spec.Taints = true, []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, TimeAdded: added}}
		}, recovery.Host{CordonedSince: since}},
		"it is cordoned, and its taint has no time": {func(n *corev1.Node) {
			n.Spec.Unschedulable, n.Spec.Taints = true, []corev1.Taint{{Key: corev1.TaintNodeUnschedulable}}
		}, recovery.Host{CordonedSince: now}},
		"the taint of a cordon outlives it": {func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, TimeAdded: added}}
		}, recovery.Host{}},
		"it is all of it": {func(n *corev1.Node) {
			n.Status.Conditions[1].Status, n.Spec.Unschedulable = corev1.ConditionUnknown, true
			n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, TimeAdded: added}, {Key: corev1.TaintNodeOutOfService, TimeAdded: added}}
		}, recovery.Host{Unheard: true, OutOfService: true, CordonedSince: since}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newFourHosts()
			test.is(&e.nodes[1])
			test.want.Name = "n1"
			if host, err := e.hosts().Named(t.Context(), "n1"); err != nil || !gocmp.Equal(host, test.want) {
				t.Errorf("%v; it differs from what was expected:\n%s", err, gocmp.Diff(test.want, host))
			}
		})
	}
}

func TestSpareHostNodes(t *testing.T) {
	tainted := func(effect corev1.TaintEffect) func(*fourHosts) {
		return func(e *fourHosts) {
			e.nodes[3].Spec.Taints = []corev1.Taint{{Key: "example.com/etcd", Value: "only", Effect: effect}}
		}
	}
	tolerate := func(toleration corev1.Toleration) func(*fourHosts) {
		return func(e *fourHosts) {
			tainted(corev1.TaintEffectNoSchedule)(e)
			e.set.Spec.Template.Spec.Tolerations = []corev1.Toleration{toleration}
		}
	}
	for name, test := range map[string]struct {
		is   func(*fourHosts)
		want int
	}{
		"one has no pod":                {func(*fourHosts) {}, 1},
		"two have none":                 {func(e *fourHosts) { e.pods = e.pods[:2] }, 2},
		"one has only a pod that ended": {func(e *fourHosts) { e.pods[1].Status.Phase = corev1.PodFailed }, 2},
		"one has a pod that stops":      {func(e *fourHosts) { e.pods[1].DeletionTimestamp = ptr.To(metav1.NewTime(now)) }, 1},
		"a pod has no node":             {func(e *fourHosts) { e.pods[1].Spec.NodeName = "" }, 2},
		"it is taken":                   {func(e *fourHosts) { e.pods[1].Spec.NodeName = "n3"; e.nodes[1].Spec.Unschedulable = true }, 0},
		"it is no host node":            {func(e *fourHosts) { e.nodes[3].Labels = nil }, 0},
		"it is not there":               {func(e *fourHosts) { e.nodes = e.nodes[:3] }, 0},
		"it is not ready":               {func(e *fourHosts) { e.nodes[3].Status.Conditions[1].Status = corev1.ConditionFalse }, 0},
		"it is not heard from":          {func(e *fourHosts) { e.nodes[3].Status.Conditions[1].Status = corev1.ConditionUnknown }, 0},
		"it never said anything":        {func(e *fourHosts) { e.nodes[3].Status.Conditions = nil }, 0},
		"it is cordoned":                {func(e *fourHosts) { e.nodes[3].Spec.Unschedulable = true }, 0},
		"it takes no pods":              {tainted(corev1.TaintEffectNoSchedule), 0},
		"it ends pods":                  {tainted(corev1.TaintEffectNoExecute), 0},
		"it would rather take none":     {tainted(corev1.TaintEffectPreferNoSchedule), 1},
		"members tolerate its taint":    {tolerate(corev1.Toleration{Key: "example.com/etcd", Operator: corev1.TolerationOpExists}), 1},
		"members tolerate all taints":   {tolerate(corev1.Toleration{Operator: corev1.TolerationOpExists}), 1},
		"members tolerate another":      {tolerate(corev1.Toleration{Key: "example.com/etcd", Value: "never", Effect: corev1.TaintEffectNoSchedule}), 0},
		"there is no StatefulSet": {func(e *fourHosts) {
			tolerate(corev1.Toleration{Operator: corev1.TolerationOpExists})(e)
			e.set = nil
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			e := newFourHosts()
			test.is(e)
			if spare, err := e.hosts().Spare(t.Context(), e.pods, e.set); err != nil || spare != test.want {
				t.Errorf("%v; %d are spare", err, spare)
			}
		})
	}
}
