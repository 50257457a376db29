package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Format is the format of bootstrap data.
// +kubebuilder:validation:Enum=cloud-config
type Format string

// CloudConfig is cloud-init's format.
const CloudConfig Format = "cloud-config"

// TokenRevokedAnnotation is set by the controller on a KOKConfig when it has revoked the machine's bootstrap token; its
// value is the token's id. A move or a restore drops status and keeps annotations: so no revoked token becomes valid again.
const TokenRevokedAnnotation = "bootstrap.cluster.x-k8s.io/token-revoked"

// KOKConfigSpec says how a machine becomes a worker. Changes after the bootstrap data was made have no effect on the
// machine.
type KOKConfigSpec struct {
	// format of the bootstrap data.
	// +optional
	// +kubebuilder:default=cloud-config
	Format Format `json:"format,omitempty"`

	// kubelet configures the node's kubelet.
	// +optional
	Kubelet KubeletSpec `json:"kubelet,omitempty,omitzero"`

	// software says where containerd, kubelet and kok-apiserver-lb come from. All three must be in
	// a directory of the system's path, such as /usr/bin or /usr/local/bin.
	// +optional
	// +kubebuilder:default={"mode": "Preinstalled"}
	Software SoftwareSpec `json:"software,omitempty,omitzero"`

	// registryMirrors are where containerd pulls images from. It reads them when the config_path of its
	// registry configuration is /etc/containerd/certs.d, which is the default from containerd 2.0 on.
	// +optional
	// +listType=map
	// +listMapKey=registry
	// +kubebuilder:validation:MaxItems=32
	RegistryMirrors []RegistryMirror `json:"registryMirrors,omitempty"`

	// proxy is what containerd, apt and downloads use to reach others. Nothing uses it to reach the tenant's
	// API.
	// +optional
	Proxy ProxySpec `json:"proxy,omitempty,omitzero"`

	// files are written before anything is started.
	// +optional
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MaxItems=200
	Files []File `json:"files,omitempty"`

	// users are added to the machine.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	Users []User `json:"users,omitempty"`

	// ntp configures the machine's clock.
	// +optional
	NTP NTPSpec `json:"ntp,omitempty,omitzero"`

	// preKubeletCommands are run by /bin/sh -e as root, in order, after software was installed and
	// before containerd, the load balancer and kubelet are started. A command that fails ends the bootstrap.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=10240
	PreKubeletCommands []string `json:"preKubeletCommands,omitempty"`

	// postKubeletCommands are run in the same way once kubelet has its certificate and runs.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=10240
	PostKubeletCommands []string `json:"postKubeletCommands,omitempty"`
}

// ProxySpec names HTTP proxies.
// +kubebuilder:validation:MinProperties=1
type ProxySpec struct {
	// http is the URL of the proxy for plain HTTP.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	HTTP string `json:"http,omitempty"`

	// https is the URL of the proxy for HTTPS.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	HTTPS string `json:"https,omitempty"`

	// no lists hosts, domains and CIDRs that are reached directly, besides loopback and the Cluster's
	// Pods, Services and service domain.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	No []string `json:"no,omitempty"`
}

// NTPSpec configures cloud-init's ntp module.
// +kubebuilder:validation:MinProperties=1
type NTPSpec struct {
	// servers are the NTP servers that the machine takes the time from.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Servers []string `json:"servers,omitempty"`

	// enabled can be set to false to leave the machine's clock alone.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
}

// KOKConfigStatus is the observed state of a KOKConfig.
type KOKConfigStatus struct {
	// conditions say what is true of the bootstrap data; every message says what is wrong and where.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization tells Cluster API how far the provisioning of the Machine is.
	// +optional
	Initialization InitializationStatus `json:"initialization,omitempty,omitzero"`

	// dataSecretName is the name of the Secret with the bootstrap data: that of the KOKConfig.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	DataSecretName string `json:"dataSecretName,omitempty"`

	// bootstrapToken is the token that the machine joins with.
	// +optional
	BootstrapToken BootstrapTokenStatus `json:"bootstrapToken,omitempty,omitzero"`

	// observedGeneration is the generation of spec that this status was computed from.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// InitializationStatus is part of the bootstrap contract.
// +kubebuilder:validation:MinProperties=1
type InitializationStatus struct {
	// dataSecretCreated is true once the Machine's bootstrap data can be used.
	// +optional
	DataSecretCreated *bool `json:"dataSecretCreated,omitempty"`
}

// BootstrapTokenStatus is the state of a machine's bootstrap token.
// +kubebuilder:validation:MinProperties=1
type BootstrapTokenStatus struct {
	// id is the public part of the token: the tenant holds it as kube-system/bootstrap-token-<id>.
	// +optional
	// +kubebuilder:validation:MinLength=6
	// +kubebuilder:validation:MaxLength=6
	ID string `json:"id,omitempty"`

	// expirationTime is when the token ends unless it is renewed. It is unset once the token was revoked, because the machine
	// has joined.
	// +optional
	ExpirationTime metav1.Time `json:"expirationTime,omitempty,omitzero"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=kokconfigs,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`
// +kubebuilder:printcolumn:name="Data secret created",type=string,JSONPath=`.status.initialization.dataSecretCreated`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Paused",type=string,priority=10,JSONPath=`.status.conditions[?(@.type=="Paused")].status`

// KOKConfig says how one machine becomes a worker; the controller makes its bootstrap data from it.
type KOKConfig struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	// +kubebuilder:default={}
	Spec KOKConfigSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
	// +optional
	Status KOKConfigStatus `json:"status,omitempty,omitzero"`
}

// +kubebuilder:object:root=true

// KOKConfigList is a list of KOKConfigs.
type KOKConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []KOKConfig `json:"items"`
}

// GetConditions returns the conditions, as Cluster API's conditions package wants it.
func (c *KOKConfig) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions, as Cluster API's conditions package wants it.
func (c *KOKConfig) SetConditions(conditions []metav1.Condition) { c.Status.Conditions = conditions }
