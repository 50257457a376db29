package v1alpha1

// AddonMode says who installs an addon.
// +kubebuilder:validation:Enum=Managed;None
type AddonMode string

const (
	// AddonManaged installs the addon, upgrades it with the control plane and repairs it.
	AddonManaged AddonMode = "Managed"
	// AddonNone leaves the addon to others. What the control plane installed before is removed.
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

	// konnectivity carries what the API server sends to nodes, pods, Services and webhooks of the tenant: logs, exec,
	// admission and aggregated APIs. Host nodes need no route to them, and tenants get no way to what host nodes reach.
	// +optional
	// +kubebuilder:default={}
	Konnectivity KonnectivitySpec `json:"konnectivity,omitempty,omitzero"`
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

// KonnectivitySpec configures konnectivity: a server beside each kube-apiserver, and an agent on every
// worker that connects to all of them.
type KonnectivitySpec struct {
	// mode is Managed or None. Managed needs workers with the local load balancer, through which agents reach the servers.
	// Everything that the API server sends to nodes, pods, Services and webhooks then goes through an agent, so that nobody
	// can make the API server connect to addresses in the host nodes' networks. With None the API server dials every address
	// by itself, from its host node, also one that the tenant's administrators name. A change restarts the API servers, one
	// after the other. Agents are installed when all have restarted; until then, API servers that have restarted reach no
	// node, pod or Service. Unset when a control plane is created, mode becomes Managed, or None with hosting.exposure.type
	// NodePort, where it must be None. Unset later, it stays as it is.
	// +optional
	Mode AddonMode `json:"mode,omitempty"`

	// serverImage overrides the image of the server, which runs in the host cluster, with registry, path
	// and tag or digest. A change restarts the API servers, one after the other.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ServerImage string `json:"serverImage,omitempty"`

	// agentImage overrides the image of the agent, which runs in the tenant, with registry, path and tag
	// or digest.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	AgentImage string `json:"agentImage,omitempty"`
}

const (
	// KonnectivityPortOffset plus the port of an API server is the port at the same address where konnectivity serves agents,
	// in every mode. It never changes, because workers have it in their configuration.
	KonnectivityPortOffset = 9

	// KonnectivityLocalPort is the port on 127.0.0.1 of every worker where its local load balancer
	// listens for the worker's konnectivity agent.
	KonnectivityLocalPort = 8132
)

// Managed says whether the control plane runs konnectivity.
func (s KonnectivitySpec) Managed() bool { return s.Mode == AddonManaged }

// DefaultKonnectivityMode is the mode of a new control plane that names none, by how it is exposed.
func DefaultKonnectivityMode(exposure ExposureType) AddonMode {
	if exposure == ExposureNodePort {
		return AddonNone
	}
	return AddonManaged
}
