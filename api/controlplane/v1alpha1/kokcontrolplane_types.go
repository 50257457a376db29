package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

const (
	// KOKControlPlaneFinalizer keeps a KOKControlPlane until nothing of the tenant is left in the host cluster.
	KOKControlPlaneFinalizer = "controlplane.cluster.x-k8s.io/kok"

	// HostNodeLabel marks, with value "true", the nodes of the host cluster that carry control
	// planes. A person sets it; it is the default of spec.hosting.nodeSelector.
	HostNodeLabel = "kok.cluster.x-k8s.io/host-node"

	// PortPoolLabel names the port pool of a host node. It is the key of a taint, too, with which a person keeps away the pods of
	// other control planes.
	PortPoolLabel = "kok.cluster.x-k8s.io/port-pool"

	// PodReadyToDrain is a condition of a pod of etcd whose node is cordoned. It is true when the member
	// does not lead, or is the only one: then its eviction fails no write that another member could have taken.
	PodReadyToDrain = "kok.cluster.x-k8s.io/ReadyToDrain"
)

// KOKControlPlaneSpec is the desired state of a tenant's control plane.
//
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || self.?kubeAPIServer.?workload.orValue('DaemonSet') == 'Deployment'",message="replicas must not be set: kube-apiserver runs as a DaemonSet, one replica on every host node that hosting.nodeSelector chooses; label more nodes to get more replicas, or create a control plane whose kubeAPIServer.workload is Deployment"
// +kubebuilder:validation:XValidation:rule="(self.?kubeAPIServer.?workload.orValue('DaemonSet') == 'Deployment') == (oldSelf.?kubeAPIServer.?workload.orValue('DaemonSet') == 'Deployment')",message="kubeAPIServer.workload is immutable: API servers of both kinds would want the same ports while one takes the other's place; create a new control plane"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.controlPlaneEndpoint) || (has(self.controlPlaneEndpoint) && self.controlPlaneEndpoint == oldSelf.controlPlaneEndpoint)",message="controlPlaneEndpoint is immutable once set: kubeconfigs and certificates name it"
type KOKControlPlaneSpec struct {
	// version is the Kubernetes version of the control plane, for example "v1.36.3".
	// A missing "v" is added.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`

	// replicas is the number of API servers when kubeAPIServer.workload is Deployment, by default 2. It
	// must be unset for a DaemonSet, which runs one on every host node. When the number is removed from spec, the last one
	// stays in force: so an autoscaler can take over.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Replicas *int32 `json:"replicas,omitempty"`

	// controlPlaneEndpoint is where the management cluster and people reach the tenant's
	// API; workers use their local load balancer instead. Unset, it becomes the address
	// of the API server's Service in the host cluster.
	// +optional
	ControlPlaneEndpoint APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`

	// hosting says where in the host cluster the control plane runs.
	// +optional
	// +kubebuilder:default={}
	Hosting HostingSpec `json:"hosting,omitempty,omitzero"`

	// imageRepository is the registry and path that component images are pulled from, unless a
	// component names its own image.
	// +optional
	// +kubebuilder:default="registry.k8s.io"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ImageRepository string `json:"imageRepository,omitempty"`

	// imagePullSecret is the name of a Secret of type kubernetes.io/dockerconfigjson in the same namespace,
	// with the password of the registry of images. The pods of the control plane use it, and those of
	// addons a copy in the tenant, which its administrators can read: let the password only pull, and allow
	// the copy by the label kok.cluster.x-k8s.io/for-tenants=true. A change of the name restarts every
	// component. Where the host cluster is another one, the namespace there needs the Secret, too.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ImagePullSecret string `json:"imagePullSecret,omitempty"`

	// kubeAPIServer configures kube-apiserver.
	// +optional
	KubeAPIServer KubeAPIServerSpec `json:"kubeAPIServer,omitempty,omitzero"`

	// kubeControllerManager configures kube-controller-manager.
	// +optional
	// +kubebuilder:default={}
	KubeControllerManager ReplicatedComponentSpec `json:"kubeControllerManager,omitempty,omitzero"`

	// kubeScheduler configures kube-scheduler.
	// +optional
	// +kubebuilder:default={}
	KubeScheduler ReplicatedComponentSpec `json:"kubeScheduler,omitempty,omitzero"`

	// etcd configures the two etcd clusters of the control plane.
	// +optional
	// +kubebuilder:default={}
	Etcd EtcdSpec `json:"etcd,omitempty,omitzero"`

	// encryptionAtRest configures how the API server encrypts what it writes to etcd.
	// +optional
	// +kubebuilder:default={}
	EncryptionAtRest EncryptionAtRestSpec `json:"encryptionAtRest,omitempty,omitzero"`

	// addons are installed in the tenant.
	// +optional
	// +kubebuilder:default={}
	Addons AddonsSpec `json:"addons,omitempty,omitzero"`

	// metrics says who may read the metrics of the components of the control plane.
	// +optional
	Metrics MetricsSpec `json:"metrics,omitempty,omitzero"`

	// patches change generated objects where no field does, one after the other. What the control plane
	// depends on cannot be patched; docs/customising.md lists what can. A change of a patch rolls out the
	// component that it is for, and no other.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Patches []Patch `json:"patches,omitempty"`

	// rollout configures rollouts of the control plane.
	// +optional
	Rollout RolloutSpec `json:"rollout,omitempty,omitzero"`

	// keyRotation gives the control plane new keys in place of those that it has. What it takes, and what to do when a key has leaked:
	// docs/keys.md.
	// +optional
	KeyRotation KeyRotationSpec `json:"keyRotation,omitempty,omitzero"`
}

// APIEndpoint is a reachable Kubernetes API.
// +kubebuilder:validation:MinProperties=1
type APIEndpoint struct {
	// host is a DNS name or an IP address.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Host string `json:"host,omitempty"`

	// port is the TCP port.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
}

// MetricsMode says whether a Prometheus outside the tenant may read metrics of its components.
// +kubebuilder:validation:Enum=Managed;None
type MetricsMode string

const (
	// MetricsManaged keeps the Secret <cluster>-metrics-certs, beside the pods of the control plane, with all that a Prometheus needs
	// to read the metrics of API servers, controller managers and schedulers: a client certificate that lives for a
	// week and may read metrics and health alone, the CA of the components, and their addresses.
	MetricsManaged MetricsMode = "Managed"
	// MetricsNone keeps no such Secret.
	MetricsNone MetricsMode = "None"
)

// MetricsSpec says who may read metrics of the components of the control plane.
// +kubebuilder:validation:MinProperties=1
type MetricsSpec struct {
	// mode is Managed, which keeps a Secret for Prometheus, or None, which counts when it is unset. No component
	// restarts for it.
	// +optional
	Mode MetricsMode `json:"mode,omitempty"`
}

// RolloutSpec configures rollouts.
// +kubebuilder:validation:MinProperties=1
type RolloutSpec struct {
	// after makes every component take the newest rendering once this time has passed, even when nothing in spec changed. An
	// upgrade of the provider alone never restarts a pod.
	// +optional
	After metav1.Time `json:"after,omitempty,omitzero"`

	// renderings name, for a component, a stored rendering that it takes again in place of what a newer provider rendered. An
	// entry holds while the component's inputs are those that the stored rendering was made from: until spec, the version or a
	// key changes. While it holds, it wins over after. An entry that does not hold changes nothing, and the condition Reconciled
	// names it. A revision that is named here is kept. To remove an entry restarts nothing: the component stays as it is until
	// its inputs change, or until another time in after has passed. docs/day-two.md says how it is done.
	// +optional
	// +listType=map
	// +listMapKey=component
	// +kubebuilder:validation:MaxItems=16
	Renderings []StoredRendering `json:"renderings,omitempty"`
}

// StoredRendering names a rendering of a component that is stored in the host cluster.
type StoredRendering struct {
	// component is kube-apiserver, kube-controller-manager or kube-scheduler. Members of etcd take no former rendering: what they have
	// on their volumes may be of a newer one.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Component string `json:"component,omitempty"`

	// revision is the number of the rendering, that of the ControllerRevision <cluster>-<component>-<revision>. The last ten of each
	// component are kept: kok history <cluster> --renderings lists them.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9007199254740991
	Revision int64 `json:"revision,omitempty"`
}

// EncryptionMode says how secrets are encrypted at rest.
// +kubebuilder:validation:Enum=SecretBox;None
type EncryptionMode string

const (
	// EncryptionSecretBox encrypts with XSalsa20 and Poly1305 and a key of the tenant's own.
	EncryptionSecretBox EncryptionMode = "SecretBox"
	// EncryptionNone writes plain text.
	EncryptionNone EncryptionMode = "None"
)

// EncryptionAtRestSpec configures encryption at rest.
type EncryptionAtRestSpec struct {
	// mode is SecretBox or None. It is immutable: data written one way could not be read the other.
	// +optional
	// +kubebuilder:default=SecretBox
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="encryptionAtRest.mode is immutable: what etcd holds was written with it"
	Mode EncryptionMode `json:"mode,omitempty"`

	// resources are encrypted, in the form "resource" or "resource.group".
	// +optional
	// +listType=set
	// +kubebuilder:default={secrets}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Resources []string `json:"resources,omitempty"`
}

// KOKControlPlaneStatus is the observed state of a tenant's control plane.
type KOKControlPlaneStatus struct {
	// conditions say what is true of the control plane; every message says what is wrong and where.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization tells Cluster API how far the first provisioning is.
	// +optional
	Initialization InitializationStatus `json:"initialization,omitempty,omitzero"`

	// selector selects the kube-apiserver pods, in query-parameter form.
	// +optional
	Selector string `json:"selector,omitempty"`

	// replicas is the number of kube-apiserver pods.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// readyReplicas is the number of ready kube-apiserver pods.
	// +optional
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`

	// availableReplicas is the number of available kube-apiserver pods.
	// +optional
	AvailableReplicas *int32 `json:"availableReplicas,omitempty"`

	// upToDateReplicas is the number of kube-apiserver pods as their workload wants them now.
	// +optional
	UpToDateReplicas *int32 `json:"upToDateReplicas,omitempty"`

	// desiredReplicas is the wanted number of kube-apiserver pods: one on every host node, or
	// spec.replicas.
	// +optional
	DesiredReplicas *int32 `json:"desiredReplicas,omitempty"`

	// versions are the Kubernetes versions that components run, from older to newer. An old one stays until no pod of any
	// component runs it.
	// +optional
	// +listType=map
	// +listMapKey=version
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Versions []clusterv1.StatusVersion `json:"versions,omitempty"`

	// etcd is the state of the etcd clusters.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=2
	Etcd []EtcdClusterStatus `json:"etcd,omitempty"`

	// etcdHealth sums up both etcd clusters for people, for example "3/3 3/3" for ready members
	// of data and events.
	// +optional
	EtcdHealth string `json:"etcdHealth,omitempty"`

	// newestSnapshot is the newest verified snapshot of the data etcd, when members last told of one. It is there only with
	// spec.etcd.backup.
	// +optional
	NewestSnapshot *NewestSnapshotStatus `json:"newestSnapshot,omitempty"`

	// externalManagedControlPlane is true: there are no Node objects for this control plane.
	// +optional
	ExternalManagedControlPlane *bool `json:"externalManagedControlPlane,omitempty"`

	// observedGeneration is the generation of spec that this status was computed from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// InitializationStatus is part of the control plane contract.
// +kubebuilder:validation:MinProperties=1
type InitializationStatus struct {
	// controlPlaneInitialized is true once the tenant's API accepted requests.
	// +optional
	ControlPlaneInitialized *bool `json:"controlPlaneInitialized,omitempty"`
}

// EtcdClusterStatus is the last known state of one etcd cluster.
type EtcdClusterStatus struct {
	// name is "data" or "events".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	Name string `json:"name,omitempty"`

	// replicas is the number of members in spec.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// readyReplicas is the number of members whose pod is ready.
	// +optional
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`

	// bootstrapped is true once every first member has joined. From then on a member without data does not start by itself,
	// because it no longer knows what it voted for.
	// +optional
	Bootstrapped *bool `json:"bootstrapped,omitempty"`

	// clusterID is the ID that etcd gave itself when it was founded, in hexadecimal.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	ClusterID string `json:"clusterID,omitempty"`

	// restoring is the restore in place that is under way; unset for none.
	// +optional
	Restoring *EtcdRestoringStatus `json:"restoring,omitempty"`

	// restoredAt is the time of the last restore in place that is over. For a restore that a person asked for, it is that of the
	// request: spec.etcd.restore.requestedAt, or for the etcd with the events spec.etcd.events.foundAnewAt. For one that the
	// controller began by itself, it is when that began. The events count as restored once nothing of the former members is left.
	// +optional
	RestoredAt metav1.Time `json:"restoredAt,omitempty,omitzero"`

	// members are those in etcd's own list, as it was last read.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Members []EtcdMemberStatus `json:"members,omitempty"`
}

// EtcdMemberState is how far a member has come.
// +kubebuilder:validation:Enum=Joining;Learner;Voter
type EtcdMemberState string

const (
	// EtcdMemberJoining is a member that was added and has not started yet.
	EtcdMemberJoining EtcdMemberState = "Joining"
	// EtcdMemberLearner is a member that copies the data and does not vote yet.
	EtcdMemberLearner EtcdMemberState = "Learner"
	// EtcdMemberVoter is a member that counts for the quorum.
	EtcdMemberVoter EtcdMemberState = "Voter"
)

// EtcdMemberStatus is a member of an etcd cluster.
type EtcdMemberStatus struct {
	// name is that of the member and of its pod.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// state is Joining, Learner or Voter.
	// +required
	State EtcdMemberState `json:"state,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=kokcontrolplanes,shortName=kokcp,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="APIServers",type=integer,JSONPath=`.status.readyReplicas`,description="ready kube-apiserver pods"
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.status.desiredReplicas`,description="kube-apiserver pods that there should be"
// +kubebuilder:printcolumn:name="Etcd",type=string,JSONPath=`.status.etcdHealth`,description="ready members of the data and events etcd"
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.controlPlaneEndpoint.host`
// +kubebuilder:printcolumn:name="Port",type=integer,JSONPath=`.spec.controlPlaneEndpoint.port`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Recovering",type=string,priority=10,JSONPath=`.status.conditions[?(@.type=="EtcdRecovering")].status`,description="whether a lost member of etcd is replaced"
// +kubebuilder:printcolumn:name="Backed Up",type=string,priority=10,JSONPath=`.status.conditions[?(@.type=="EtcdBackedUp")].status`,description="whether a young snapshot of the data etcd is verified"
// +kubebuilder:printcolumn:name="Snapshot Age",type=date,priority=10,JSONPath=`.status.newestSnapshot.takenAt`,description="how long ago the newest verified snapshot was taken"
// +kubebuilder:printcolumn:name="Snapshot Bytes",type=integer,priority=10,JSONPath=`.status.newestSnapshot.storedBytes`,description="its size in the store"
// +kubebuilder:printcolumn:name="Paused",type=string,priority=10,JSONPath=`.status.conditions[?(@.type=="Paused")].status`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name must be at most 63 characters: it becomes a label value"

// KOKControlPlane is a tenant's control plane, run as pods of the host cluster.
type KOKControlPlane struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec KOKControlPlaneSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
	// +optional
	Status KOKControlPlaneStatus `json:"status,omitempty,omitzero"`
}

// +kubebuilder:object:root=true

// KOKControlPlaneList is a list of KOKControlPlanes.
type KOKControlPlaneList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []KOKControlPlane `json:"items"`
}

// GetConditions returns the conditions, as Cluster API's conditions package wants it.
func (c *KOKControlPlane) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions, as Cluster API's conditions package wants it.
func (c *KOKControlPlane) SetConditions(conditions []metav1.Condition) {
	c.Status.Conditions = conditions
}
