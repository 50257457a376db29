package operator

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/hostnodes"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/recovery"
)

// Of the member's pod nothing is left, so that the host node is that of its volume.
func TestTheHostNodeThatAVolumeIsTiedTo(t *testing.T) {
	requires := func(key string, operator corev1.NodeSelectorOperator, values ...string) []corev1.NodeSelectorRequirement {
		return []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}
	}
	byField := func(node string) *corev1.VolumeNodeAffinity {
		return withTerms(corev1.NodeSelectorTerm{MatchFields: requires("metadata.name", corev1.NodeSelectorOpIn, node)})
	}
	unparsable := withTerms(corev1.NodeSelectorTerm{MatchExpressions: requires(corev1.LabelHostname, "Near", "n1")})
	affinity := func(affinity *corev1.VolumeNodeAffinity) func(*losingEtcd) {
		return func(e *losingEtcd) { e.volumes[1].Spec.NodeAffinity = affinity }
	}
	// unmarked is a claim that no scheduler named a node for, as one that was bound by hand.
	unmarked := func(is func(*losingEtcd)) func(*losingEtcd) {
		return func(e *losingEtcd) {
			is(e)
			e.claims[1].Annotations = nil
		}
	}
	withoutNode := func(e *losingEtcd) { e.nodes = slices.Delete(e.nodes, 1, 2) }
	notHost := func(e *losingEtcd) { delete(e.nodes[1].Labels, hostLabel) }
	unlabelled := func(e *losingEtcd) { e.nodes[1].Labels = nil }
	refuse := func(what string) func(*losingEtcd) {
		return func(e *losingEtcd) {
			e.before = func(request string) error {
				if request == what {
					return errRefused
				}
				return nil
			}
		}
	}
	on1, gone1, gone := recovery.Host{Name: "n1"}, recovery.Host{Name: "n1", Gone: true}, recovery.Host{Gone: true}
	for name, test := range map[string]struct {
		is    func(*losingEtcd)
		tied  bool
		host  recovery.Host
		fails string
	}{
		"one host node can use it":                             {is: func(*losingEtcd) {}, tied: true, host: on1},
		"one can, and it was made for none":                    {is: unmarked(func(*losingEtcd) {}), tied: true, host: on1},
		"one can, and it was made for another":                 {is: func(e *losingEtcd) { e.claims[1].Annotations[hostnodes.SelectedNode] = "n2" }, tied: true, host: on1},
		"one can, by its name as a field":                      {is: affinity(byField("n1")), tied: true, host: on1},
		"one can, by its name, that is gone":                   {is: unmarked(func(e *losingEtcd) { affinity(byField("n1"))(e); withoutNode(e) }), tied: true, host: gone},
		"one of two is gone":                                   {is: func(e *losingEtcd) { affinity(onNodes("n1", "n2"))(e); withoutNode(e) }, tied: true, host: recovery.Host{Name: "n2"}},
		"several can":                                          {is: affinity(onNodes("n1", "n2"))},
		"several can, by their names as fields":                {is: affinity(withTerms(byField("n1").Required.NodeSelectorTerms[0], byField("n2").Required.NodeSelectorTerms[0]))},
		"one can by its labels, and another by its name":       {is: affinity(withTerms(onNodes("n1").Required.NodeSelectorTerms[0], byField("n2").Required.NodeSelectorTerms[0]))},
		"every node can":                                       {is: affinity(nil)},
		"every node can, and it was made for one that is gone": {is: func(e *losingEtcd) { affinity(nil)(e); withoutNode(e) }},
		"nothing is required":                                  {is: affinity(&corev1.VolumeNodeAffinity{})},
		"a zone is required": {is: func(e *losingEtcd) {
			affinity(withTerms(corev1.NodeSelectorTerm{MatchExpressions: requires(corev1.LabelTopologyZone, corev1.NodeSelectorOpExists)}))(e)
			for i := range e.nodes {
				e.nodes[i].Labels[corev1.LabelTopologyZone] = "a"
			}
		}},
		"its node is gone":                  {is: withoutNode, tied: true, host: gone1},
		"its node has lost its labels":      {is: unlabelled, tied: true, host: on1},
		"its node is no host node any more": {is: notHost, tied: true, host: on1},
		"its node is out of service and has lost its labels": {is: func(e *losingEtcd) {
			unlabelled(e)
			e.nodes[1].Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService}}
		}, tied: true, host: recovery.Host{Name: "n1", OutOfService: true}},
		"its node is gone, and it was made for none":             {is: unmarked(withoutNode), tied: true, host: gone},
		"its node has lost its labels, and it was made for none": {is: unmarked(unlabelled), tied: true, host: gone},
		"its node is no host node, and it was made for none":     {is: unmarked(notHost), tied: true, host: on1},
		"several nodes that are no host nodes can": {is: unmarked(func(e *losingEtcd) {
			affinity(onNodes("n1", "n2"))(e)
			notHost(e)
			delete(e.nodes[2].Labels, hostLabel)
		})},
		"its affinity cannot be parsed":                                             {is: affinity(unparsable), fails: "read the node affinity of PersistentVolume volume-blue-etcd-data-1: "},
		"its affinity cannot be parsed, and it was made for none":                   {is: unmarked(affinity(unparsable)), fails: "read the node affinity"},
		"its affinity cannot be parsed, and its node is gone":                       {is: func(e *losingEtcd) { affinity(unparsable)(e); withoutNode(e) }, fails: "read the node affinity"},
		"its affinity cannot be parsed, and there is no node":                       {is: func(e *losingEtcd) { affinity(unparsable)(e); e.nodes = nil }, fails: "read the node affinity"},
		"its affinity cannot be parsed, there is no node, and it was made for none": {is: unmarked(func(e *losingEtcd) { affinity(unparsable)(e); e.nodes = nil }), fails: "read the node affinity"},
		"one term of it cannot be parsed": {is: func(e *losingEtcd) {
			affinity(withTerms(onNodes("n1").Required.NodeSelectorTerms[0], unparsable.Required.NodeSelectorTerms[0]))(e)
			withoutNode(e)
		}, fails: "read the node affinity"},
		"it names a field that nodes do not have": {is: unmarked(affinity(withTerms(corev1.NodeSelectorTerm{MatchFields: requires("spec.name", corev1.NodeSelectorOpGt, "1")}))), fails: "read the node affinity"},
		"its node cannot be read": {is: func(e *losingEtcd) {
			notHost(e)
			e.claims[1].Annotations[hostnodes.SelectedNode] = "n1"
			refuse("get Node n1")(e)
		}, fails: "read host node n1: connection refused"},
		"nodes cannot be listed": {is: refuse("list NodeList"), fails: "list the host nodes map[example.com/control-planes:]: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLosingEtcd()
			e.pods = slices.Delete(e.pods, 1, 2)
			test.is(e)
			m, err := e.second(t)
			if m.Claim.Tied != test.tied || m.Host != test.host {
				t.Errorf("it is tied: %t, to %+v", m.Claim.Tied, m.Host)
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
			e := newLosingEtcd()
			test.is(&e.nodes[1])
			test.want.Name = "n1"
			if m, err := e.second(t); err != nil || !cmp.Equal(m.Host, test.want) {
				t.Errorf("%v; it differs from what was expected:\n%s", err, cmp.Diff(test.want, m.Host))
			}
		})
	}
}

func TestSpareHostNodes(t *testing.T) {
	tainted := func(effect corev1.TaintEffect) func(*losingEtcd) {
		return func(e *losingEtcd) {
			e.nodes[3].Spec.Taints = []corev1.Taint{{Key: "example.com/etcd", Value: "only", Effect: effect}}
		}
	}
	tolerate := func(toleration corev1.Toleration) func(*losingEtcd) {
		return func(e *losingEtcd) {
			tainted(corev1.TaintEffectNoSchedule)(e)
			e.set.Spec.Template.Spec.Tolerations = []corev1.Toleration{toleration}
		}
	}
	for name, test := range map[string]struct {
		is   func(*losingEtcd)
		want int
	}{
		"one has no pod":                {func(*losingEtcd) {}, 1},
		"two have none":                 {func(e *losingEtcd) { e.pods = e.pods[:2] }, 2},
		"one has only a pod that ended": {func(e *losingEtcd) { e.pods[1].Status.Phase = corev1.PodFailed }, 2},
		"one has a pod that stops":      {func(e *losingEtcd) { terminating(&e.pods[1]) }, 1},
		"a pod has no node":             {func(e *losingEtcd) { e.pods[1].Spec.NodeName = "" }, 2},
		"it is taken":                   {func(e *losingEtcd) { e.pods[1].Spec.NodeName = "n3"; e.nodes[1].Spec.Unschedulable = true }, 0},
		"it has a pod of others":        {func(e *losingEtcd) { e.pods[1].Labels = nil }, 2},
		"it is no host node":            {func(e *losingEtcd) { e.nodes[3].Labels = nil }, 0},
		"it is not there":               {func(e *losingEtcd) { e.nodes = e.nodes[:3] }, 0},
		"it is not ready":               {func(e *losingEtcd) { e.nodes[3].Status.Conditions[1].Status = corev1.ConditionFalse }, 0},
		"it is not heard from":          {func(e *losingEtcd) { e.nodes[3].Status.Conditions[1].Status = corev1.ConditionUnknown }, 0},
		"it never said anything":        {func(e *losingEtcd) { e.nodes[3].Status.Conditions = nil }, 0},
		"it is cordoned":                {func(e *losingEtcd) { e.nodes[3].Spec.Unschedulable = true }, 0},
		"it takes no pods":              {tainted(corev1.TaintEffectNoSchedule), 0},
		"it ends pods":                  {tainted(corev1.TaintEffectNoExecute), 0},
		"it would rather take none":     {tainted(corev1.TaintEffectPreferNoSchedule), 1},
		"members tolerate its taint":    {tolerate(corev1.Toleration{Key: "example.com/etcd", Operator: corev1.TolerationOpExists}), 1},
		"members tolerate all taints":   {tolerate(corev1.Toleration{Operator: corev1.TolerationOpExists}), 1},
		"members tolerate another":      {tolerate(corev1.Toleration{Key: "example.com/etcd", Value: "never", Effect: corev1.TaintEffectNoSchedule}), 0},
		"members are not told of": {func(e *losingEtcd) {
			tolerate(corev1.Toleration{Operator: corev1.TolerationOpExists})(e)
			e.set.Name = "other"
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLosingEtcd()
			test.is(e)
			if state, err := e.state(t); err != nil || state.Spare != test.want {
				t.Errorf("%v; %d are spare", err, state.Spare)
			}
		})
	}
}
