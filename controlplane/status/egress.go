package status

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// dialsItself says what a tenant's administrators can do where API servers are not confined.
const dialsItself = "kube-apiserver dials what the tenant's administrators name, as addresses of Nodes and Services and URLs of webhooks, " +
	"from the network of host nodes"

// egressConfined is about the API servers that run, not about those that are rendered. What is to be switched off counts as
// off already.
func egressConfined(in *Input, seen *Observation) metav1.Condition {
	const name = conditionsv1.EgressConfinedCondition
	no := func(reason, message string) metav1.Condition {
		return Condition(name, metav1.ConditionFalse, reason, message)
	}
	spec := in.ControlPlane.Spec
	pods := egressOf(seen)
	switch {
	case spec.Hosting.Exposure.Type == controlplanev1.ExposureNodePort:
		return no(conditionsv1.NodePortExposureReason, dialsItself+", and spec.hosting.exposure.type NodePort leaves no port for konnectivity: "+
			"create a control plane with the exposure LoadBalancer or on the host network, or accept it")
	case !spec.Addons.Konnectivity.Managed():
		return no(conditionsv1.KonnectivityOffReason, dialsItself+": set spec.addons.konnectivity.mode to Managed")
	case pods.all == 0:
		return Condition(name, metav1.ConditionUnknown, conditionsv1.WaitingReason, waitingFor(in, names.KubeAPIServer))
	case pods.confined == pods.all:
		return Condition(name, metav1.ConditionTrue, conditionsv1.ConfinedReason)
	case pods.rolling:
		return no(clusterv1.RollingOutReason, fmt.Sprintf("%d of %d API servers are confined: nothing to do while the others are replaced", pods.confined, pods.all))
	case pods.older > 0:
		return no(conditionsv1.OlderRenderingReason, "kube-apiserver is as an older release rendered it, and dials webhooks that have a URL from the "+
			"network of host nodes: set spec.rollout.after to a time that has passed, which restarts the control plane pod by pod")
	}
	return no(conditionsv1.WaitingReason, dialsItself+", until it restarts with konnectivity: "+waitingFor(in, names.KubeAPIServer))
}

// egress counts API servers by whether konnectivity dials for them.
type egress struct {
	all, confined int
	// older have konnectivity, and do not use it for everything.
	older int
	// rolling is true while pods are replaced.
	rolling bool
}

func egressOf(seen *Observation) egress {
	var found egress
	for i := range seen.Pods[names.KubeAPIServer] {
		pod := &seen.Pods[names.KubeAPIServer][i]
		if hostpods.Ended(pod) {
			continue
		}
		found.all++
		switch {
		case kubeapiserver.ConfinesEgress(pod):
			found.confined++
		case pod.DeletionTimestamp != nil:
			found.rolling = true
		case kubeapiserver.HasKonnectivity(pod):
			found.older++
		}
	}
	state := seen.Workloads[names.KubeAPIServer]
	found.rolling = found.rolling || state != nil && state.Updated < state.Current
	return found
}
