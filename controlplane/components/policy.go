package components

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// NetworkPolicy lets in what the rules say and nothing else. kubelet still reaches pods of its node: no
// policy stops it. On the host network no policy is made, because policies do not reach it.
func NetworkPolicy(in *Input, component string, rules ...networkingv1.NetworkPolicyIngressRule) []client.Object {
	if !in.OnPodNetwork() {
		return nil
	}
	policy := &networkingv1.NetworkPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: *Selector(in, component),
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress:     rules,
		},
	}
	SetMeta(policy, in, component, names.Object(in.Cluster.Name, component))
	return []client.Object{policy}
}

// Admit lets peers reach ports; no peers are everybody.
func Admit(peers []networkingv1.NetworkPolicyPeer, ports ...int32) networkingv1.NetworkPolicyIngressRule {
	rule := networkingv1.NetworkPolicyIngressRule{From: peers}
	for _, port := range ports {
		rule.Ports = append(rule.Ports, networkingv1.NetworkPolicyPort{
			Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To(intstr.FromInt32(port)),
		})
	}
	return rule
}

// PodsOf are the pods of a component of the same tenant.
func PodsOf(in *Input, component string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{PodSelector: Selector(in, component)}
}

// Manager selects the pods of the provider's manager, in whichever namespace it is installed. The label of the namespace
// is required, too: users may give their pods any label, but cannot label a namespace.
func Manager() networkingv1.NetworkPolicyPeer {
	provider := map[string]string{names.ProviderLabel: names.Provider}
	return networkingv1.NetworkPolicyPeer{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: provider}, PodSelector: &metav1.LabelSelector{MatchLabels: provider},
	}
}
