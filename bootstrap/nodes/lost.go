package nodes

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/cloudinit"
)

// Lost are the Machines whose Node was there once and is not among the Nodes of the tenant, by their names. A Machine that is being
// deleted has its Node deleted before it. Whether kubelet runs is not asked: if it does not, Kubernetes says so at the Node.
func Lost(machines []clusterv1.Machine, there sets.Set[string]) []*clusterv1.Machine {
	var lost []*clusterv1.Machine
	for i := range machines {
		m := &machines[i]
		if m.Status.NodeRef.Name != "" && !there.Has(m.Status.NodeRef.Name) && m.DeletionTimestamp.IsZero() &&
			strings.HasPrefix(m.Spec.ProviderID, "idc://"+m.Namespace+"/") {
			lost = append(lost, m)
		}
	}
	return lost
}

// managedAttachDetach has kube-controller-manager attach volumes to a Node. Kubelet sets it when it registers the Node
// (pkg/volume/util of Kubernetes), and we leave kubelet's enableControllerAttachDetach as it is, true.
const managedAttachDetach = "volumes.kubernetes.io/controller-managed-attach-detach"

// Anew is the Node of a Machine, with what kubelet gives it when it registers it and never again.
func Anew(machine *clusterv1.Machine, kubelet *bootstrapv1.KubeletSpec) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: machine.Status.NodeRef.Name, Labels: map[string]string{}}}
	maps.Copy(node.Labels, kubelet.NodeLabels)
	node.Labels[corev1.LabelHostname] = node.Name
	node.Annotations = map[string]string{managedAttachDetach: "true"}
	if info := machine.Status.NodeInfo; info != nil && info.OperatingSystem != "" && info.Architecture != "" {
		node.Labels[corev1.LabelOSStable], node.Labels[corev1.LabelArchStable] = info.OperatingSystem, info.Architecture
	}
	node.Spec.ProviderID, node.Spec.Taints = machine.Spec.ProviderID, cloudinit.Taints(kubelet.Taints)
	return node
}
