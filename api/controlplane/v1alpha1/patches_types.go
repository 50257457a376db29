package v1alpha1

// PatchType says what a patch is.
// +kubebuilder:validation:Enum=StrategicMerge;JSON6902
type PatchType string

const (
	// PatchStrategicMerge is a part of the object, merged into it as kubectl patch does by default: maps
	// are merged, lists by the key that Kubernetes gives them (containers by name) or, if they have none,
	// replaced; null removes.
	PatchStrategicMerge PatchType = "StrategicMerge"
	// PatchJSON6902 is a list of operations as in RFC 6902, done one after the other.
	PatchJSON6902 PatchType = "JSON6902"
)

// Patch changes objects that are generated for the control plane.
type Patch struct {
	// target says which objects are patched.
	// +required
	Target PatchTarget `json:"target,omitempty,omitzero"`

	// type is StrategicMerge or JSON6902.
	// +optional
	// +kubebuilder:default=StrategicMerge
	Type PatchType `json:"type,omitempty"`

	// patch is the patch as YAML or JSON: a part of the object for StrategicMerge, a list of operations
	// for JSON6902.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16384
	Patch string `json:"patch,omitempty"`
}

// PatchTarget says which objects a patch is for: all of one kind of one component.
type PatchTarget struct {
	// component is one of the control plane in the host cluster (etcd-data, etcd-events, kube-apiserver,
	// kube-controller-manager, kube-scheduler) or an addon in the tenant (coredns, kube-proxy, konnectivity).
	// The servers of konnectivity are containers of kube-apiserver; konnectivity is the agents.
	// +required
	// +kubebuilder:validation:Enum=etcd-data;etcd-events;kube-apiserver;kube-controller-manager;kube-scheduler;coredns;kube-proxy;konnectivity
	Component string `json:"component,omitempty"`

	// kind of the objects, for example Deployment. A kind that the component never has is refused; a
	// patch for an object that is not there now, such as the PodDisruptionBudget of a single replica,
	// waits for it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]*$`
	Kind string `json:"kind,omitempty"`
}
