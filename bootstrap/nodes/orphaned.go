package nodes

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// silence is how long kubelet must have been silent.
const silence = 5 * time.Minute

// Orphaned reports whether a Node of a Cluster in that namespace has lost its Machine for good. All of this is true then: the
// Node was a host of the data centre, no Machine of the Cluster has it or may become it, and its kubelet is silent. A kubelet
// that reports still runs pods. A joining Node may be without a network for long, but its kubelet reports.
func Orphaned(node *corev1.Node, namespace string, machines []clusterv1.Machine, now time.Time) bool {
	if !strings.HasPrefix(node.Spec.ProviderID, "idc://"+namespace+"/") || !silentFor(node, silence, now) {
		return false
	}
	return !slices.ContainsFunc(machines, func(machine clusterv1.Machine) bool {
		// A Node has the name of its IDCMachine.
		return machine.Spec.ProviderID == node.Spec.ProviderID || machine.Status.NodeRef.Name == node.Name ||
			machine.Spec.InfrastructureRef.Name == node.Name || machine.Name == node.Name
	})
}

// silentFor reports whether kubelet has been silent for that time. Kubernetes then sets the Node's condition Ready to Unknown.
func silentFor(node *corev1.Node, least time.Duration, now time.Time) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionUnknown && now.Sub(condition.LastTransitionTime.Time) >= least
	})
}
