package v1alpha1

// AddonMode says who cares for an addon.
// +kubebuilder:validation:Enum=Managed;None
type AddonMode string

const (
	// AddonManaged installs the addon, upgrades it with the control plane and repairs it.
	AddonManaged AddonMode = "Managed"
	// AddonNone leaves it to others; what was managed before is removed.
	AddonNone AddonMode = "None"
)

// AddonsSpec says what the control plane installs in the tenant.
type AddonsSpec struct {
	// kubeProxy makes Services reachable on workers.
	// +optional
	// +kubebuilder:default={}
	KubeProxy KubeProxySpec `json:"kubeProxy,omitempty,omitzero"`

	// coreDNS answers names of Services.
	// +optional
	// +kubebuilder:default={}
	CoreDNS CoreDNSSpec `json:"coreDNS,omitempty,omitzero"`
}

// KubeProxySpec configures kube-proxy.
type KubeProxySpec struct {
	// mode is Managed or None. Managed needs workers with the local load balancer; None is for networks
	// that bring a replacement.
	// +optional
	// +kubebuilder:default=Managed
	Mode AddonMode `json:"mode,omitempty"`

	// image overrides the image, with registry, path and tag or digest.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`
}

// CoreDNSSpec configures CoreDNS.
type CoreDNSSpec struct {
	// mode is Managed or None.
	// +optional
	// +kubebuilder:default=Managed
	Mode AddonMode `json:"mode,omitempty"`

	// replicas is the number of pods.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Replicas *int32 `json:"replicas,omitempty"`

	// image overrides the image, with registry, path and tag or digest.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`
}
