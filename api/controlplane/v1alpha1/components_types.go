package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// HostingSpec says where in the host cluster a control plane runs.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.ports) || has(self.ports)",message="hosting.ports cannot be removed once set: certificates, etcd members and kubeconfigs name the ports"
// +kubebuilder:validation:XValidation:rule="has(self.exposure) == (has(self.networkMode) && self.networkMode == 'PodNetwork')",message="hosting.exposure goes with networkMode PodNetwork, and PodNetwork needs it: set both or neither; on the host network API servers are reached at the addresses of their nodes"
// +kubebuilder:validation:XValidation:rule="!has(self.ports) || !has(self.networkMode) || self.networkMode == 'HostNetwork'",message="hosting.ports is for networkMode HostNetwork: pods on the pod network take no port of a host; remove it"
// +kubebuilder:validation:XValidation:rule="has(self.kubeconfigRef) == has(oldSelf.kubeconfigRef) && (!has(self.kubeconfigRef) || self.kubeconfigRef == oldSelf.kubeconfigRef)",message="hosting.kubeconfigRef is immutable: pods and data are in the host cluster that it names; write another kubeconfig of the same cluster into the Secret, or create a new control plane for another one"
// +kubebuilder:validation:XValidation:rule=`has(self.portPool) && has(oldSelf.portPool) ? self.portPool == oldSelf.portPool : (!has(self.portPool) || self.portPool == "") && (!has(oldSelf.portPool) || oldSelf.portPool == "")`,message="hosting.portPool is immutable: in another pool another control plane may have the same ports; create a new control plane for another pool"
type HostingSpec struct {
	// kubeconfigRef names the host cluster, if that is not the management cluster. It is immutable. With it
	// the management cluster cannot reach cluster IPs there, so controlPlaneEndpoint must be set, or
	// exposure.type be LoadBalancer.
	// +optional
	KubeconfigRef KubeconfigReference `json:"kubeconfigRef,omitempty,omitzero"`

	// networkMode is HostNetwork or PodNetwork. It is immutable.
	// +optional
	// +kubebuilder:default=HostNetwork
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="hosting.networkMode is immutable: certificates, etcd members, kubeconfigs and workers name the addresses and ports that it gave; create a new control plane for another mode"
	NetworkMode NetworkMode `json:"networkMode,omitempty"`

	// exposure says how API servers are reached from outside of the host cluster. It is required with
	// networkMode PodNetwork, and must be unset otherwise.
	// +optional
	Exposure ExposureSpec `json:"exposure,omitempty,omitzero"`

	// nodeSelector chooses the host nodes. It is never empty, so that a control plane runs only on
	// nodes that a person labelled for it. It must contain the labels that the manager's flag
	// --host-node-selector names, by default kok.cluster.x-k8s.io/host-node=true.
	// +optional
	// +kubebuilder:default={"kok.cluster.x-k8s.io/host-node": "true"}
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations are added to every pod of the control plane. Each must name its taint, and not the
	// one of the host cluster's own control plane, unless the manager's flag --allow-any-toleration is set.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// portPool is the port pool of the control plane. Its pods run only on host nodes whose label kok.cluster.x-k8s.io/port-pool has
	// this value, and tolerate a taint with that key and value. Control planes of different pools may have the same host ports,
	// because no host node is in two pools. Empty, it is in none. It is immutable, and only there with networkMode HostNetwork.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	PortPool string `json:"portPool,omitempty"`

	// ports is the block of host ports that the components listen on. Unset, the first free block
	// is claimed and written here. It is immutable once set, and only there with networkMode HostNetwork.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="hosting.ports is immutable once set: certificates, etcd members and kubeconfigs name the ports"
	Ports PortBlock `json:"ports,omitempty,omitzero"`
}

// KubeconfigReference names a Secret in the namespace of the control plane whose data key "value" is a
// kubeconfig, as in the kubeconfig Secrets of Cluster API. The kubeconfig must contain all that it needs: programs, auth
// providers and paths of files are refused, and so is a connection whose certificate is not verified.
// The Secret gets the label clusterctl.cluster.x-k8s.io/move, so that clusterctl move takes it along.
type KubeconfigReference struct {
	// name is the name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
}

// KubeconfigKey is the data key of a Secret with a kubeconfig.
const KubeconfigKey = "value"

// PortBlockSize is the number of host ports in a block.
const PortBlockSize = 20

// PortBlock is a block of PortBlockSize consecutive host ports.
// +kubebuilder:validation:MinProperties=1
type PortBlock struct {
	// first is the first port of the block: a multiple of 20 (the block's size) from 1040 to 65500.
	// The block must be in the range that the manager's flag --host-port-range gives to control
	// planes, by default 20000-29999.
	// +required
	// +kubebuilder:validation:Minimum=1040
	// +kubebuilder:validation:Maximum=65500
	// +kubebuilder:validation:MultipleOf=20
	First int32 `json:"first,omitempty"`
}

// ComponentSpec has the fields that every component has.
type ComponentSpec struct {
	// image overrides the component's image, with registry, path and tag or digest.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`

	// extraArgs are added to the command line, or replace a default of the same name. Arguments
	// that the controller owns are refused.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	ExtraArgs []Arg `json:"extraArgs,omitempty"`

	// resources are the container's requests and limits. Unset, requests fit a small tenant and
	// memory has a high limit. Set, what it leaves out is not limited. docs/neighbours.md has the values.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// extraVolumes are mounted into the container.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	ExtraVolumes []ExtraVolume `json:"extraVolumes,omitempty"`
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

// ExtraVolume mounts a ConfigMap, a Secret or an empty directory; exactly one is set.
// +kubebuilder:validation:XValidation:rule="(has(self.configMap) ? 1 : 0) + (has(self.secret) ? 1 : 0) + (has(self.emptyDir) ? 1 : 0) == 1",message="exactly one of configMap, secret, emptyDir must be set"
type ExtraVolume struct {
	// name of the volume, unique in the component; names with the prefix "kok-" are the
	// controller's.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('kok-')",message="volume names with the prefix kok- belong to the controller; choose another"
	Name string `json:"name,omitempty"`

	// mountPath is an absolute path in the container.
	// +required
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^/[^:]+$`
	MountPath string `json:"mountPath,omitempty"`

	// configMap is a ConfigMap in the control plane's namespace.
	// +optional
	ConfigMap *corev1.ConfigMapVolumeSource `json:"configMap,omitempty"`

	// secret is a Secret in the control plane's namespace.
	// +optional
	Secret *corev1.SecretVolumeSource `json:"secret,omitempty"`

	// emptyDir is a directory that lives as long as its pod; unlike the others it can be written.
	// +optional
	EmptyDir *corev1.EmptyDirVolumeSource `json:"emptyDir,omitempty"`
}

// ReplicatedComponentSpec configures a component that runs as a Deployment with leader election.
type ReplicatedComponentSpec struct {
	ComponentSpec `json:",inline"`

	// replicas is the number of pods, each on a host node of its own.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9
	Replicas *int32 `json:"replicas,omitempty"`
}

// KubeAPIServerSpec configures kube-apiserver.
type KubeAPIServerSpec struct {
	ComponentSpec `json:",inline"`

	// workload is DaemonSet, one API server on every host node, or Deployment, spec.replicas API servers.
	// Unset, it is DaemonSet. It is immutable.
	// +optional
	Workload APIServerWorkload `json:"workload,omitempty"`

	// certSANs are further names and addresses of the serving certificate.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	CertSANs []string `json:"certSANs,omitempty"`

	// audit turns the audit log on.
	// +optional
	Audit *AuditSpec `json:"audit,omitempty"`

	// jwt are issuers of JSON Web Tokens that the tenant trusts, in the form of the "jwt" list of
	// apiserver.config.k8s.io/v1 AuthenticationConfiguration. It takes the place of the oidc-*
	// arguments.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	JWT []runtime.RawExtension `json:"jwt,omitempty"`
}

// AuditSpec configures the audit log: a file that is rotated, in a volume that lives as long as
// its pod. The volume has room for maxBackups + 1 files of maxSizeMB and a tenth more.
type AuditSpec struct {
	// policy is an audit.k8s.io/v1 Policy as YAML. Unset, metadata of every request but reads of
	// leases and health checks is logged.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Policy string `json:"policy,omitempty"`

	// maxSizeMB is the size at which the file is rotated, in megabytes.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxSizeMB int32 `json:"maxSizeMB,omitempty"`

	// maxBackups is the number of rotated files that are kept.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=20
	MaxBackups int32 `json:"maxBackups,omitempty"`
}

// EtcdRecovery is what the controller may give up to bring back an etcd whose quorum is lost for good.
// +kubebuilder:validation:Enum=Members;Survivor;Automatic
type EtcdRecovery string

const (
	// EtcdRecoversMembers replaces single members from the others, and gives nothing up. Everything else asks a person.
	EtcdRecoversMembers EtcdRecovery = "Members"
	// EtcdRecoversFromSurvivor also founds the data etcd anew from a member that is left. What only the lost ones had is lost.
	EtcdRecoversFromSurvivor EtcdRecovery = "Survivor"
	// EtcdRecoversAutomatically also founds the data etcd anew from the newest verified snapshot, when no member is left, and the etcd with the
	// events, empty. What was written since the snapshot is lost, and all events.
	EtcdRecoversAutomatically EtcdRecovery = "Automatic"
)

// EtcdSpec configures the two etcd clusters.
//
// +kubebuilder:validation:XValidation:rule="!has(self.recovery) || self.recovery != 'Automatic' || has(self.backup)",message="etcd.recovery Automatic needs snapshots: set etcd.backup, or set etcd.recovery to Survivor"
type EtcdSpec struct {
	// image overrides the image of both etcd clusters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`

	// data is the etcd cluster that holds everything but events.
	// +optional
	// +kubebuilder:default={}
	Data EtcdClusterSpec `json:"data,omitempty,omitzero"`

	// events is the etcd cluster that holds events, so that a storm of them cannot hurt the data.
	// +optional
	// +kubebuilder:default={}
	Events EtcdEventsSpec `json:"events,omitempty,omitzero"`

	// backup has snapshots of the data etcd taken, verified and kept; unset, none are.
	// +optional
	Backup *EtcdBackupSpec `json:"backup,omitempty"`

	// restore has the data etcd begin with a snapshot, or founds it anew from one, or from a member that is left.
	// +optional
	Restore *EtcdRestoreSpec `json:"restore,omitempty"`

	// recovery says what the controller may give up by itself when most members of an etcd have lost their data.
	// With Members, the default, it gives up nothing. With Survivor it gives up what only the lost members of the data etcd had.
	// With Automatic, which needs backup, it takes the newest verified snapshot when no member is left, and gives up what was
	// written since; and it gives up all events when most members of their etcd have lost their data. A member has lost its
	// data when its volume is empty or damaged. The controller does not count a member that it cannot reach, or that givenUp
	// names.
	// +optional
	Recovery EtcdRecovery `json:"recovery,omitempty"`

	// givenUp are members of the data etcd that will never run again with the data that they had. A restore in place does not
	// wait for them. Name only members whose host nodes are gone for good.
	// +optional
	// +kubebuilder:validation:MaxItems=7
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	GivenUp []string `json:"givenUp,omitempty"`
}

// EventsInData reports whether events are in the etcd with the data, and have none of their own.
func (s EtcdSpec) EventsInData() bool { return s.Events.Mode == EtcdEventsInData }

// EtcdEventsMode says in which etcd events are.
// +kubebuilder:validation:Enum=Separate;InData
type EtcdEventsMode string

const (
	// EtcdEventsSeparate keeps events in an etcd cluster of their own.
	EtcdEventsSeparate EtcdEventsMode = "Separate"
	// EtcdEventsInData keeps events in the etcd cluster with the data. A small tenant needs half as many members
	// of etcd then. A storm of events fills the database that everything else is in.
	EtcdEventsInData EtcdEventsMode = "InData"
)

// EtcdEventsSpec says where events are, and configures their etcd cluster.
// +kubebuilder:validation:XValidation:rule="(has(self.mode) && self.mode == 'InData') == (has(oldSelf.mode) && oldSelf.mode == 'InData')",message="mode is immutable: events are where it says; create a new control plane to have them elsewhere"
type EtcdEventsSpec struct {
	// mode says in which etcd events are; unset, Separate. With InData all other fields of events count for nothing.
	// +optional
	Mode EtcdEventsMode `json:"mode,omitempty"`

	// foundAnewAt asks for a new, empty etcd for the events. The controller deletes the pods and the volumes of its members that are
	// older than this time, and then makes new ones. All events are lost, and nothing else. Ask for it when most of its members
	// have lost their data, unless recovery is Automatic: the controller does it by itself then. "kok etcd restore-in-place
	// --events" sets the present time. The time can only become later.
	// +optional
	FoundAnewAt metav1.Time `json:"foundAnewAt,omitempty,omitzero"`

	EtcdClusterSpec `json:",inline"`
}

// EtcdClusterSpec configures one etcd cluster.
type EtcdClusterSpec struct {
	// replicas is the number of members: odd, so that one more member is one more failure survived. It can
	// be changed once the cluster is bootstrapped. Members then join and leave one by one, and none
	// restarts.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=7
	// +kubebuilder:validation:XValidation:rule="self % 2 == 1",message="the number of etcd members must be odd (1, 3, 5 or 7): an even one survives no more failures than one less"
	Replicas *int32 `json:"replicas,omitempty"`

	// storage is where members keep their data.
	// +optional
	// +kubebuilder:default={}
	Storage EtcdStorageSpec `json:"storage,omitempty,omitzero"`

	// resources are the container's requests and limits. Unset, requests fit a small tenant and
	// memory has a limit that grows with quotaBackendSize. Set, what it leaves out is not limited.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// quotaBackendSize is the size of the database at which etcd refuses writes.
	// +optional
	// +kubebuilder:default="2Gi"
	QuotaBackendSize *resource.Quantity `json:"quotaBackendSize,omitempty"`
}

// EtcdStorageType says where members keep their data.
// +kubebuilder:validation:Enum=PersistentVolumeClaim;EmptyDir
type EtcdStorageType string

const (
	// EtcdStoragePersistentVolumeClaim keeps a member's data in a PersistentVolume.
	EtcdStoragePersistentVolumeClaim EtcdStorageType = "PersistentVolumeClaim"
	// EtcdStorageEmptyDir keeps a member's data as long as its pod: for trials only. A change that would replace
	// a pod of an etcd that has data is not carried out, and Reconciled says so.
	EtcdStorageEmptyDir EtcdStorageType = "EmptyDir"
)

// EtcdStorageSpec says where members keep their data.
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type == oldSelf.type",message="type is immutable: create a new control plane to change where its data lives"
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="storageClassName is immutable: create a new control plane to change where its data lives"
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'EmptyDir' || self.size == oldSelf.size",message="size of an EmptyDir is immutable: members would be replaced, and their data go with their pods"
type EtcdStorageSpec struct {
	// type is PersistentVolumeClaim or, for trials, EmptyDir.
	// +optional
	// +kubebuilder:default=PersistentVolumeClaim
	Type EtcdStorageType `json:"type,omitempty"`

	// size of each member's volume. When it is larger, volumes grow while members go on, if their
	// StorageClass allows volumes to grow; they never shrink. An EmptyDir has it as its limit, for good:
	// a member that needs more is evicted, and its data is lost.
	// +optional
	// +kubebuilder:default="8Gi"
	Size *resource.Quantity `json:"size,omitempty"`

	// storageClassName of the claims; unset or empty, the host cluster's default class.
	// +optional
	// +kubebuilder:validation:MinLength=0
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`
}
