package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// IDCHostFinalizer keeps a claimed IDCHost until its machine has given it back. It is written and removed together with
	// the claim: a free host can be deleted at once.
	IDCHostFinalizer = "infrastructure.cluster.x-k8s.io/idchost-claim"

	// SSHPrivateKey is the key of a Secret that holds a private SSH key in OpenSSH's or PEM's format,
	// as in Secrets of type kubernetes.io/ssh-auth.
	SSHPrivateKey = corev1.SSHAuthPrivateKey
	// SSHCertificate is the optional key of a Secret that holds an OpenSSH certificate of that key.
	SSHCertificate = "ssh-certificate"

	// MoveLabel makes clusterctl move take along an object that no Cluster owns. The CustomResourceDefinition of IDCHosts has
	// it, and the controller gives it to the Secrets with keys that IDCHosts name.
	MoveLabel = "clusterctl.cluster.x-k8s.io/move"
)

// SSHServer is an SSH server and how to log in to it.
type SSHServer struct {
	// address is the server's IP address or DNS name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Address string `json:"address,omitempty"`

	// port is the server's TCP port.
	// +optional
	// +kubebuilder:default=22
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// user is the name of the user that the controller logs in as.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	User string `json:"user,omitempty"`

	// keySecretRef names the Secret, in the host's namespace, with the user's private key in
	// ssh-privatekey and, optionally, its OpenSSH certificate in ssh-certificate.
	// +required
	KeySecretRef SecretReference `json:"keySecretRef,omitempty,omitzero"`

	// hostKeys are the server's public keys as in the files /etc/ssh/ssh_host_*_key.pub. The controller logs in to no
	// server that has none of them.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=8192
	HostKeys []string `json:"hostKeys,omitempty"`
}

// SecretReference names a Secret in the same namespace.
type SecretReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// IDCHostSpec says how a host is reached, who uses it, and why it must not be used. The last two are in spec because
// clusterctl move copies spec and drops status.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.claim) || !has(self.claim) || self.claim == oldSelf.claim",message="claim cannot be changed to another machine's: delete the Machine, so that the host is given back clean"
type IDCHostSpec struct {
	// SSHServer is the host's own SSH server. The user is root, or may become root by sudo without a
	// password.
	SSHServer `json:",inline"`

	// bastion is an SSH server through which the host is reached.
	// +optional
	Bastion *SSHServer `json:"bastion,omitempty"`

	// failureDomain is the part of the data centre that fails together with this host.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`

	// takeOver lets a machine claim the host although the host is in use. The machine then stops and removes the node that
	// runs on the host. It must equal the fact in the message of the condition Healthy with the reason InUse, for example
	// "kubelet runs, and /etc/kubernetes/kubelet.conf leads to https://10.0.0.1:6443", so it allows nothing when the fact
	// is another one. A host that carries a machine of another inventory cannot be taken over.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	TakeOver string `json:"takeOver,omitempty"`

	// capacity is what the host has, for IDCMachines with minCapacity. A probe finds out cpu and memory where they are left
	// out.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// claim is the IDCMachine that the host is reserved for. The controller writes it.
	// +optional
	Claim *HostClaim `json:"claim,omitempty"`

	// quarantine keeps machines from claiming the host. The controller sets it when a clean-up failed, and a person removes it
	// once the host is put right. When the clean-up failed because the host was away, the controller removes it itself.
	// +optional
	Quarantine *HostQuarantine `json:"quarantine,omitempty"`

	// uncleanInstanceID is the spec.instanceID of a machine that was deleted without a clean-up of its host, because the
	// host was away and a person had put it into quarantine. No machine gets the host, and nothing is done on it, until
	// that person removes the quarantine. Then the controller cleans the host up and unsets this field. The controller
	// writes it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`
	UncleanInstanceID string `json:"uncleanInstanceID,omitempty"`
}

// HostClaim reserves a host for an IDCMachine of the same namespace. It has no UID, because UIDs change when clusterctl
// moves objects.
type HostClaim struct {
	// name of the IDCMachine.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// instanceID is the IDCMachine's spec.instanceID. It differs between machines that had the same name one after the
	// other.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`
	InstanceID string `json:"instanceID,omitempty"`
}

// HostQuarantine says why a host must not be used.
type HostQuarantine struct {
	// reason says what is wrong with the host, for people.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Reason string `json:"reason,omitempty"`

	// since is when the host was put into quarantine.
	// +optional
	Since metav1.Time `json:"since,omitempty,omitzero"`

	// instanceID is the spec.instanceID of a machine that was deleted without a clean-up of its host. The controller cleans
	// the host once it answers, and then ends the quarantine. Unset, a person ends the quarantine, and the controller then
	// cleans up what uncleanInstanceID names.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`
	InstanceID string `json:"instanceID,omitempty"`
}

// IDCHostStatus is what the last probe saw of a host.
type IDCHostStatus struct {
	// conditions say what is true of the host; every message says what is wrong and the way out.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// system is what runs on the host.
	// +optional
	System SystemInfo `json:"system,omitempty,omitzero"`

	// capacity is what the host has, by the last probe.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// addresses are the IP addresses of the host, without those of pods and containers. They do not change while a machine
	// has the host, because a tenant may add addresses to its node. After a clusterctl move, which drops status, they are read
	// once more.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=45
	Addresses []string `json:"addresses,omitempty"`

	// observedGeneration is the generation of spec that this status was computed from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// SystemInfo is what runs on a host.
// +kubebuilder:validation:MinProperties=1
type SystemInfo struct {
	// architecture of the processor, as Go names it, for example amd64.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Architecture string `json:"architecture,omitempty"`

	// kernelVersion is the release of the kernel.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	KernelVersion string `json:"kernelVersion,omitempty"`

	// osImage is the pretty name in /etc/os-release.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	OSImage string `json:"osImage,omitempty"`

	// programs are those of containerd, kubelet, kubeadm, crictl and ctr that are installed on the host.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	Programs []string `json:"programs,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=idchosts,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels={"clusterctl.cluster.x-k8s.io/move="}
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.spec.address`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].reason`
// +kubebuilder:printcolumn:name="Machine",type=string,JSONPath=`.spec.claim.name`
// +kubebuilder:printcolumn:name="Reachable",type=string,JSONPath=`.status.conditions[?(@.type=="Reachable")].status`
// +kubebuilder:printcolumn:name="Healthy",type=string,JSONPath=`.status.conditions[?(@.type=="Healthy")].status`
// +kubebuilder:printcolumn:name="FailureDomain",type=string,JSONPath=`.spec.failureDomain`
// +kubebuilder:printcolumn:name="OS",type=string,priority=1,JSONPath=`.status.system.osImage`
// +kubebuilder:printcolumn:name="CPU",type=string,priority=1,JSONPath=`.status.capacity.cpu`
// +kubebuilder:printcolumn:name="Memory",type=string,priority=1,JSONPath=`.status.capacity.memory`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// IDCHost is a host in a data centre. An IDCMachine makes it a machine of a cluster, and chooses it by the labels of this
// object.
type IDCHost struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says how the host is reached, and who uses it.
	// +required
	Spec IDCHostSpec `json:"spec,omitempty,omitzero"`

	// status is what the last probe saw of the host.
	// +optional
	Status IDCHostStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions.
func (h *IDCHost) GetConditions() []metav1.Condition { return h.Status.Conditions }

// SetConditions replaces the conditions.
func (h *IDCHost) SetConditions(conditions []metav1.Condition) { h.Status.Conditions = conditions }

// +kubebuilder:object:root=true

// IDCHostList is a list of IDCHosts.
type IDCHostList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IDCHost `json:"items"`
}
