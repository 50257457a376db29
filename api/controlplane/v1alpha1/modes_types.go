package v1alpha1

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// NetworkMode says which network the pods of a control plane are on.
// +kubebuilder:validation:Enum=HostNetwork;PodNetwork
type NetworkMode string

const (
	// NetworkModeHost puts pods on the network of their host nodes. Each tenant has a port block of its own. Of the host
	// cluster's network it needs only Services.
	NetworkModeHost NetworkMode = "HostNetwork"
	// NetworkModePod puts pods on the pod network of the host cluster, at their usual ports, behind
	// NetworkPolicies.
	NetworkModePod NetworkMode = "PodNetwork"
)

// ExposureType says how API servers on the pod network are reached from outside of the host cluster.
// +kubebuilder:validation:Enum=LoadBalancer;NodePort;None
type ExposureType string

const (
	// ExposureLoadBalancer exposes them at the address that the host cluster's load balancer gives their Service.
	ExposureLoadBalancer ExposureType = "LoadBalancer"
	// ExposureNodePort exposes them at a port of the host nodes that they run on.
	ExposureNodePort ExposureType = "NodePort"
	// ExposureNone does not expose them. Clients inside the host cluster reach them by their Service.
	ExposureNone ExposureType = "None"
)

// ExposureSpec says how API servers on the pod network are reached. It is immutable.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="hosting.exposure is immutable: kubeconfigs, certificates and workers name the addresses that it gave; create a new control plane to expose it otherwise"
// +kubebuilder:validation:XValidation:rule="!has(self.nodePort) || self.type == 'NodePort'",message="hosting.exposure.nodePort is for type NodePort; remove it, or set type to NodePort"
type ExposureSpec struct {
	// type is LoadBalancer, NodePort or None. API servers listen on the exposed port and advertise the exposed address, so
	// that the tenant's Service kubernetes leads its workers to them.
	// With LoadBalancer the address is the first IP address that the Service gets. With NodePort it is
	// that of the host node of each API server. With None it is the cluster IP of the Service, which workers must be able
	// to reach.
	// +required
	Type ExposureType `json:"type,omitempty"`

	// nodePort pins the port of host nodes. Unset, the host cluster chooses a free one.
	// +optional
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=65535
	NodePort int32 `json:"nodePort,omitempty"`
}

// ExposureTemplateSpec is ExposureSpec without the port, which only one control plane can have.
type ExposureTemplateSpec struct {
	// type is LoadBalancer, NodePort or None.
	// +required
	Type ExposureType `json:"type,omitempty"`
}

// OnPodNetwork reports whether pods are on the pod network; without a mode they are on their hosts'.
func (s HostingSpec) OnPodNetwork() bool { return s.NetworkMode == NetworkModePod }

// OnAnotherCluster reports whether the host cluster is another one than the management cluster.
func (s HostingSpec) OnAnotherCluster() bool { return s.KubeconfigRef != KubeconfigReference{} }

// HostNodeLabels are the labels of the host nodes that may carry the control plane: those of the node selector, and that of the port
// pool.
func (s HostingSpec) HostNodeLabels() map[string]string {
	if s.PortPool == "" {
		return s.NodeSelector
	}
	labels := map[string]string{}
	maps.Copy(labels, s.NodeSelector)
	labels[PortPoolLabel] = s.PortPool
	return labels
}

// PodTolerations are the tolerations that pods have because of spec: those that it names, and that of the taint of the port pool's
// host nodes.
func (s HostingSpec) PodTolerations() []corev1.Toleration {
	if s.PortPool == "" {
		return s.Tolerations
	}
	pool := corev1.Toleration{Key: PortPoolLabel, Operator: corev1.TolerationOpEqual, Value: s.PortPool}
	return append(slices.Clone(s.Tolerations), pool)
}

// APIServerWorkload is the kind of workload that kube-apiserver runs as.
// +kubebuilder:validation:Enum=DaemonSet;Deployment
type APIServerWorkload string

const (
	// APIServerDaemonSet runs one API server on every host node.
	APIServerDaemonSet APIServerWorkload = "DaemonSet"
	// APIServerDeployment runs spec.replicas API servers.
	APIServerDeployment APIServerWorkload = "Deployment"

	// DefaultAPIServerReplicas is the default of spec.replicas of a Deployment.
	DefaultAPIServerReplicas int32 = 2
)

// IsDeployment reports whether kube-apiserver runs as a Deployment; without a workload it is a DaemonSet.
func (s KubeAPIServerSpec) IsDeployment() bool { return s.Workload == APIServerDeployment }
