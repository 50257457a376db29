// Package hostnodes says of the host nodes of an etcd cluster what the replacement of a lost member depends on: what they say,
// which are spare, and which one a volume is tied to. It only reads.
package hostnodes

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/recovery"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
)

// SelectedNode is the annotation of a volume claim by which the scheduler names the node that the volume was made for.
const SelectedNode = "volume.kubernetes.io/selected-node"

// Hosts are the host nodes of a control plane. All of them are read only where it matters: there may be thousands.
type Hosts struct {
	live     client.Reader
	selector map[string]string
	clock    clock.PassiveClock
	// all are those that were listed; nil before.
	all []corev1.Node
	// read are those that were read by name; nil for one that is gone.
	read map[string]*corev1.Node
}

// New returns the host nodes with some labels. It reads none of them yet. They keep what they read, so that each observation needs new ones.
func New(live client.Reader, selector map[string]string, clock clock.PassiveClock) *Hosts {
	return &Hosts{live: live, selector: selector, clock: clock, read: map[string]*corev1.Node{}}
}

// list lists all host nodes, once.
func (h *Hosts) list(ctx context.Context) ([]corev1.Node, error) {
	if h.all != nil {
		return h.all, nil
	}
	list := &corev1.NodeList{}
	if err := h.live.List(ctx, list, client.MatchingLabels(h.selector)); err != nil {
		return nil, fmt.Errorf("list the host nodes %v: %w", h.selector, err)
	}
	h.all = append([]corev1.Node{}, list.Items...)
	return h.all, nil
}

// Spare is the number of host nodes that take a pod of a StatefulSet, and have none of these pods.
func (h *Hosts) Spare(ctx context.Context, pods []corev1.Pod, set *appsv1.StatefulSet) (int, error) {
	nodes, err := h.list(ctx)
	if err != nil {
		return 0, err
	}
	var tolerations []corev1.Toleration
	if set != nil {
		tolerations = set.Spec.Template.Spec.Tolerations
	}
	spare := 0
	for i := range nodes {
		node := &nodes[i]
		taken := slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.Spec.NodeName == node.Name && !hostpods.Ended(&pod) })
		if !taken && takesPods(node, tolerations) {
			spare++
		}
	}
	return spare, nil
}

// takesPods reports whether the scheduler may put pods with some tolerations on a node.
func takesPods(node *corev1.Node, tolerations []corev1.Toleration) bool {
	ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	keepsOut := func(taint *corev1.Taint) bool { return taint.Effect != corev1.TaintEffectPreferNoSchedule }
	_, keptOut := scheduling.FindMatchingUntoleratedTaint(logr.Discard(), node.Spec.Taints, tolerations, keepsOut, false)
	return ready && !node.Spec.Unschedulable && !keptOut
}

// Named is the host node with a name.
func (h *Hosts) Named(ctx context.Context, name string) (recovery.Host, error) {
	node, err := h.node(ctx, name)
	switch {
	case err != nil:
		return recovery.Host{}, err
	case node == nil:
		return recovery.Host{Name: name, Gone: true}, nil
	}
	return h.facts(node), nil
}

// node is the Node with a name, whether it is a host node or not; nil when it is gone.
func (h *Hosts) node(ctx context.Context, name string) (*corev1.Node, error) {
	if i := slices.IndexFunc(h.all, func(node corev1.Node) bool { return node.Name == name }); i >= 0 {
		return &h.all[i], nil
	}
	if known, ok := h.read[name]; ok {
		return known, nil
	}
	node := &corev1.Node{}
	if err := h.live.Get(ctx, client.ObjectKey{Name: name}, node); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read host node %s: %w", name, err)
	} else if err != nil {
		node = nil
	}
	h.read[name] = node
	return node, nil
}

// facts is what a Node object says. The taint with the time of a cordon comes a moment after the cordon: until then the cordon
// counts as begun now.
func (h *Hosts) facts(node *corev1.Node) recovery.Host {
	host := recovery.Host{Name: node.Name, Unheard: slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
	})}
	if node.Spec.Unschedulable {
		host.CordonedSince = h.clock.Now()
	}
	for _, taint := range node.Spec.Taints {
		switch {
		case taint.Key == corev1.TaintNodeOutOfService:
			host.OutOfService = true
		case taint.Key == corev1.TaintNodeUnschedulable && node.Spec.Unschedulable && taint.TimeAdded != nil:
			host.CordonedSince = taint.TimeAdded.Time
		}
	}
	return host
}

// Tied reports whether at most one node can use a volume, and which. The node that the volume was made for is gone only when
// its Node object is: labels may be missing for a moment.
func (h *Hosts) Tied(ctx context.Context, volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) (bool, recovery.Host, error) {
	if volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return false, recovery.Host{}, nil
	}
	madeFor := claim.Annotations[SelectedNode]
	if madeFor != "" && pinned(volume) {
		node, err := h.node(ctx, madeFor)
		if err != nil {
			return false, recovery.Host{}, err
		}
		if node != nil {
			if can, err := usable(volume, []corev1.Node{*node}); err != nil || len(can) == 1 {
				return true, h.facts(node), err
			}
		}
	}
	nodes, err := h.list(ctx)
	if err != nil {
		return false, recovery.Host{}, err
	}
	usable, err := usable(volume, nodes)
	if err == nil && len(usable) == 0 && madeFor == "" {
		usable, err = h.usableElsewhere(ctx, volume)
	}
	switch {
	case err != nil:
		return false, recovery.Host{}, err
	case len(usable) > 1:
		return false, recovery.Host{}, nil
	case len(usable) == 1:
		madeFor = usable[0]
	case madeFor == "":
		return true, recovery.Host{Gone: true}, nil
	}
	host, err := h.Named(ctx, madeFor)
	return true, host, err
}

// pinned reports whether a volume names the one node that can use it.
func pinned(volume *corev1.PersistentVolume) bool {
	var names []string
	for _, term := range volume.Spec.NodeAffinity.Required.NodeSelectorTerms {
		i := slices.IndexFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
			return r.Key == corev1.LabelHostname && r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1
		})
		if i < 0 {
			return false
		}
		names = append(names, term.MatchExpressions[i].Values[0])
	}
	return len(slices.Compact(names)) == 1
}

// usable are those of some nodes that can use a volume.
func usable(volume *corev1.PersistentVolume, nodes []corev1.Node) ([]string, error) {
	selector, err := nodeaffinity.NewNodeSelector(volume.Spec.NodeAffinity.Required)
	if err != nil {
		return nil, fmt.Errorf("read the node affinity of PersistentVolume %s: %w", volume.Name, err)
	}
	var usable []string
	for i := range nodes {
		if selector.Match(&nodes[i]) {
			usable = append(usable, nodes[i].Name)
		}
	}
	return usable, nil
}

// usableElsewhere are the nodes, whether they are host nodes or not, that can use a volume.
func (h *Hosts) usableElsewhere(ctx context.Context, volume *corev1.PersistentVolume) ([]string, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := h.live.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list the nodes that can use PersistentVolume %s: %w", volume.Name, err)
	}
	nodes := make([]corev1.Node, 0, len(list.Items))
	for _, node := range list.Items {
		nodes = append(nodes, corev1.Node{ObjectMeta: node.ObjectMeta})
	}
	return usable(volume, nodes)
}
