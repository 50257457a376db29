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

	// conntrack says who sets the kernel's limits of tracked connections. Managed is kube-proxy, to its
	// defaults; None leaves a machine its own, for machines where kube-proxy may not set them because they
	// are containers themselves.
	// +optional
	// +kubebuilder:default=Managed
	Conntrack AddonMode `json:"conntrack,omitempty"`
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
