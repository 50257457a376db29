package components

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// spread asks for pods on different zones and hosts. Nothing here may leave a pod unscheduled: host ports
// already keep two pods of one component apart, and what does so on the pod network is added to it.
func spread(labels map[string]string) []corev1.TopologySpreadConstraint {
	constraints := make([]corev1.TopologySpreadConstraint, 0, 2)
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelHostname} {
		constraints = append(constraints, corev1.TopologySpreadConstraint{
			MaxSkew:           1,
			TopologyKey:       key,
			WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector:     &metav1.LabelSelector{MatchLabels: labels},
		})
	}
	return constraints
}

// SpreadReplicas keeps replicas on the pod network on different hosts, as many as can be used now: with
// more replicas than hosts each host has its share. Pods of a rollout count apart from those they replace.
func SpreadReplicas(pod *corev1.PodSpec, in *Input) {
	if !in.OnPodNetwork() {
		return
	}
	for i := range pod.TopologySpreadConstraints {
		if constraint := &pod.TopologySpreadConstraints[i]; constraint.TopologyKey == corev1.LabelHostname {
			constraint.WhenUnsatisfiable = corev1.DoNotSchedule
			constraint.NodeTaintsPolicy = ptr.To(corev1.NodeInclusionPolicyHonor)
			constraint.MatchLabelKeys = []string{appsv1.DefaultDeploymentUniqueLabelKey}
		}
	}
}

// OnePerHost keeps two pods of a component on the pod network from ever sharing a host: one that fails
// must not take two members of etcd along.
func OnePerHost(pod *corev1.PodSpec, in *Input, component string) {
	if !in.OnPodNetwork() {
		return
	}
	pod.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey:   corev1.LabelHostname,
			LabelSelector: &metav1.LabelSelector{MatchLabels: names.ComponentLabels(in.Cluster, component)},
		}},
	}}
}
