package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KubeletSpec configures kubelet.
// +kubebuilder:validation:MinProperties=1
type KubeletSpec struct {
	// nodeLabels are given to the Node when kubelet registers it. In kubernetes.io and k8s.io only those
	// labels are allowed that a kubelet may set for itself; give others to the Machine's metadata,
	// from where Cluster API copies them.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=64
	NodeLabels map[string]string `json:"nodeLabels,omitempty"`

	// taints are given to the Node when kubelet registers it, besides
	// node.cluster.x-k8s.io/uninitialized, which Cluster API removes when it has set labels.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Taints []corev1.Taint `json:"taints,omitempty"`

	// extraArgs are added to kubelet's command line. Arguments that the controller owns are refused.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	ExtraArgs []Arg `json:"extraArgs,omitempty"`

	// configuration is what can be set in kubelet's configuration file. What is unset has kubelet's
	// own default.
	// +optional
	Configuration KubeletConfigurationSpec `json:"configuration,omitempty,omitzero"`
}

// Arg is one command line argument.
type Arg struct {
	// name of the argument, without leading dashes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[a-z][a-z0-9-]*$`
	Name string `json:"name,omitempty"`

	// value of the argument.
	// +required
	// +kubebuilder:validation:MinLength=0
	// +kubebuilder:validation:MaxLength=4096
	Value *string `json:"value,omitempty"`
}

// CgroupDriver is how kubelet manages cgroups.
// +kubebuilder:validation:Enum=systemd;cgroupfs
type CgroupDriver string

// CPUManagerPolicy is kubelet's policy for giving CPUs to containers.
// +kubebuilder:validation:Enum=none;static
type CPUManagerPolicy string

// TopologyManagerPolicy is kubelet's policy for aligning resources.
// +kubebuilder:validation:Enum=none;best-effort;restricted;single-numa-node
type TopologyManagerPolicy string

// KubeletConfigurationSpec are the fields of a kubelet.config.k8s.io/v1beta1 KubeletConfiguration that
// can be set, under their names there.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.imageGCLowThresholdPercent) || self.imageGCLowThresholdPercent < (has(self.imageGCHighThresholdPercent) ? self.imageGCHighThresholdPercent : 85)",message="imageGCLowThresholdPercent must be less than imageGCHighThresholdPercent, which is 85 when unset"
// +kubebuilder:validation:XValidation:rule="!has(self.imageGCHighThresholdPercent) || self.imageGCHighThresholdPercent > (has(self.imageGCLowThresholdPercent) ? self.imageGCLowThresholdPercent : 80)",message="imageGCHighThresholdPercent must be more than imageGCLowThresholdPercent, which is 80 when unset"
// +kubebuilder:validation:XValidation:rule="!has(self.shutdownGracePeriodCriticalPods) || has(self.shutdownGracePeriod)",message="shutdownGracePeriodCriticalPods is a part of shutdownGracePeriod: set that too"
// +kubebuilder:validation:XValidation:rule="!has(self.maxParallelImagePulls) || self.maxParallelImagePulls == 1 || (has(self.serializeImagePulls) && !self.serializeImagePulls)",message="maxParallelImagePulls above 1 needs serializeImagePulls to be false"
type KubeletConfigurationSpec struct {
	// cgroupDriver must be that of containerd. Unset, kubelet takes it from containerd.
	// +optional
	CgroupDriver CgroupDriver `json:"cgroupDriver,omitempty"`

	// maxPods is the number of Pods that can run on the node.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	MaxPods int32 `json:"maxPods,omitempty"`

	// podPidsLimit is the number of processes in a Pod; -1 for no limit.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	PodPidsLimit *int64 `json:"podPidsLimit,omitempty"`

	// evictionHard says when Pods are evicted at once, by signal, for example
	// {"memory.available": "100Mi", "nodefs.available": "10%"}. Signals that are left out are off.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	EvictionHard map[string]string `json:"evictionHard,omitempty"`

	// kubeReserved are the resources that are kept for kubelet and containerd, for example
	// {"cpu": "100m", "memory": "256Mi"}.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	KubeReserved map[string]string `json:"kubeReserved,omitempty"`

	// systemReserved are the resources that are kept for the rest of the system.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	SystemReserved map[string]string `json:"systemReserved,omitempty"`

	// imageGCHighThresholdPercent is the disk usage above which unused images are removed; 100 for never.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	ImageGCHighThresholdPercent *int32 `json:"imageGCHighThresholdPercent,omitempty"`

	// imageGCLowThresholdPercent is the disk usage down to which unused images are removed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	ImageGCLowThresholdPercent *int32 `json:"imageGCLowThresholdPercent,omitempty"`

	// serializeImagePulls can be set to false to pull several images at once.
	// +optional
	SerializeImagePulls *bool `json:"serializeImagePulls,omitempty"`

	// maxParallelImagePulls is the number of images that are pulled at once.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxParallelImagePulls *int32 `json:"maxParallelImagePulls,omitempty"`

	// containerLogMaxSize is the size at which a container's log is rotated, for example "10Mi".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	ContainerLogMaxSize string `json:"containerLogMaxSize,omitempty"`

	// containerLogMaxFiles is the number of log files that are kept of a container.
	// +optional
	// +kubebuilder:validation:Minimum=2
	ContainerLogMaxFiles *int32 `json:"containerLogMaxFiles,omitempty"`

	// failSwapOn can be set to false to let kubelet run on a machine with swap.
	// +optional
	FailSwapOn *bool `json:"failSwapOn,omitempty"`

	// resolvConf is the file that Pods' name resolution starts from; empty for none.
	// +optional
	// +kubebuilder:validation:MinLength=0
	// +kubebuilder:validation:MaxLength=512
	ResolvConf *string `json:"resolvConf,omitempty"`

	// oomScoreAdj is the priority of kubelet when the machine runs out of memory.
	// +optional
	// +kubebuilder:validation:Minimum=-1000
	// +kubebuilder:validation:Maximum=1000
	OOMScoreAdj *int32 `json:"oomScoreAdj,omitempty"`

	// cpuManagerPolicy says whether containers of guaranteed Pods get CPUs of their own; static needs
	// CPU in kubeReserved or systemReserved.
	// +optional
	CPUManagerPolicy CPUManagerPolicy `json:"cpuManagerPolicy,omitempty"`

	// topologyManagerPolicy says how CPUs and devices are aligned.
	// +optional
	TopologyManagerPolicy TopologyManagerPolicy `json:"topologyManagerPolicy,omitempty"`

	// shutdownGracePeriod is how long a shutdown of the machine waits for Pods to end.
	// +optional
	ShutdownGracePeriod *metav1.Duration `json:"shutdownGracePeriod,omitempty"`

	// shutdownGracePeriodCriticalPods is the last part of it, which is left to critical Pods.
	// +optional
	ShutdownGracePeriodCriticalPods *metav1.Duration `json:"shutdownGracePeriodCriticalPods,omitempty"`

	// featureGates turns features of kubelet on or off.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=64
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
}
