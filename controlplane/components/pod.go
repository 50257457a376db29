package components

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

const (
	// PriorityClassName is the PriorityClass of every component's pods; the provider's manifests
	// install it.
	PriorityClassName = "kok-control-plane"

	// RolloutAnnotation makes pods restart when spec.rollout.after passes.
	RolloutAnnotation = "kok.cluster.x-k8s.io/rollout-after"

	// SharedUser is the user and group that components run as where a tenant has none of its own.
	SharedUser int64 = 65532

	// secretFileMode lets the component's group, and nobody else, read mounted Secrets.
	secretFileMode int32 = 0o440
)

// FinishPod sets what the pods of all components have in common: labels, placement, tolerations,
// security, host network. The asset's first container is the component's.
func FinishPod(template *corev1.PodTemplateSpec, in *Input, component string, spec controlplanev1.ComponentSpec) {
	template.Labels = names.ComponentLabels(in.Cluster, component)
	if in.RolloutAfter != "" {
		metav1.SetMetaDataAnnotation(&template.ObjectMeta, RolloutAnnotation, in.RolloutAfter)
	}

	pod := &template.Spec
	pod.HostNetwork = !in.OnPodNetwork()
	pod.DNSPolicy = corev1.DNSDefault
	pod.AutomountServiceAccountToken = ptr.To(false)
	pod.EnableServiceLinks = ptr.To(false)
	if in.Spec.ImagePullSecret != "" {
		pod.ImagePullSecrets = []corev1.LocalObjectReference{{Name: in.Spec.ImagePullSecret}}
	}
	pod.PriorityClassName = PriorityClassName
	pod.NodeSelector = in.Spec.Hosting.HostNodeLabels()
	pod.Tolerations = append(unreachableTolerations(), in.Spec.Hosting.PodTolerations()...)
	user := cmp.Or(in.User, SharedUser)
	pod.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot:        ptr.To(true),
		RunAsUser:           ptr.To(user),
		RunAsGroup:          ptr.To(user),
		FSGroup:             ptr.To(user),
		FSGroupChangePolicy: ptr.To(corev1.FSGroupChangeOnRootMismatch),
		SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	pod.TopologySpreadConstraints = spread(names.ComponentLabels(in.Cluster, component))

	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range containers {
			confine(&containers[i])
			connect(&containers[i], in)
		}
	}
	if spec.Resources != nil {
		pod.Containers[0].Resources = *spec.Resources
	}
	for i := range pod.Volumes {
		if secret := pod.Volumes[i].Secret; secret != nil {
			secret.DefaultMode = ptr.To(secretFileMode)
		}
		if projected := pod.Volumes[i].Projected; projected != nil {
			projected.DefaultMode = ptr.To(secretFileMode)
		}
	}
	addExtraVolumes(pod, spec.ExtraVolumes)
}

// confine sets what all containers have in common.
func confine(container *corev1.Container) {
	container.ImagePullPolicy = corev1.PullIfNotPresent
	container.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	container.SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false),
		ReadOnlyRootFilesystem:   ptr.To(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// connect gives a container's ports and probes what the network of its pod asks for. Ports of hosts are
// declared, so that the scheduler sees a clash. On the pod network 127.0.0.1 is kubelet's own loopback.
func connect(container *corev1.Container, in *Input) {
	if in.OnPodNetwork() {
		for _, probe := range []*corev1.Probe{container.StartupProbe, container.ReadinessProbe, container.LivenessProbe} {
			if probe != nil {
				probe.HTTPGet.Host = ""
			}
		}
		return
	}
	for i := range container.Ports {
		container.Ports[i].HostPort = container.Ports[i].ContainerPort
	}
}

// unreachableTolerations keep pods where they are while the link is cut:
// docs/decisions/hosts.md#pods-are-not-evicted-by-themselves.
func unreachableTolerations() []corev1.Toleration {
	return []corev1.Toleration{
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	}
}

func addExtraVolumes(pod *corev1.PodSpec, volumes []controlplanev1.ExtraVolume) {
	container := &pod.Containers[0]
	for _, v := range volumes {
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{
			ConfigMap: v.ConfigMap, Secret: v.Secret, EmptyDir: v.EmptyDir,
		}})
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{
			Name: v.Name, MountPath: v.MountPath, ReadOnly: v.EmptyDir == nil,
		})
	}
}

// SetVersion labels pods with the Kubernetes version that they run, so that an upgrade is over when
// no pod has the old one.
func SetVersion(template *corev1.PodTemplateSpec, in *Input) {
	template.Labels[names.VersionLabel] = versions.ImageTag(in.Version)
}

// SetPort declares a port of the component's container.
func SetPort(container *corev1.Container, name string, port int32) {
	container.Ports = append(container.Ports, corev1.ContainerPort{
		Name: name, ContainerPort: port, Protocol: corev1.ProtocolTCP,
	})
	slices.SortFunc(container.Ports, func(a, b corev1.ContainerPort) int { return int(a.ContainerPort - b.ContainerPort) })
}
