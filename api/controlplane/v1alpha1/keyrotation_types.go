package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KeyKind is a kind of key that can be rotated.
// +kubebuilder:validation:Enum=ServiceAccountKey;EncryptionKey;ClusterCA;FrontProxyCA;EtcdCA;EtcdEventsCA
type KeyKind string

const (
	// ServiceAccountKeyKind is the key that signs tokens of service accounts.
	ServiceAccountKeyKind KeyKind = "ServiceAccountKey"
	// EncryptionKeyKind is the key by which API servers encrypt what encryptionAtRest names.
	EncryptionKeyKind KeyKind = "EncryptionKey"
	// ClusterCAKind is the CA of API servers, and of all who show a certificate to them: nodes, the programs of the control plane, people.
	ClusterCAKind KeyKind = "ClusterCA"
	// FrontProxyCAKind is the CA of the certificate by which API servers act for users at extension API servers.
	FrontProxyCAKind KeyKind = "FrontProxyCA"
	// EtcdCAKind is the CA of the data etcd, by which API servers and the manager sign in at both etcd clusters' members.
	EtcdCAKind KeyKind = "EtcdCA"
	// EtcdEventsCAKind is the CA of the events etcd.
	EtcdEventsCAKind KeyKind = "EtcdEventsCA"
)

// KeyRotationSpec asks for new keys, in two phases: docs/keys.md. Keys never rotate by themselves.
type KeyRotationSpec struct {
	// kinds are the keys that the times are for. Kinds that are asked for by the same time go on together, so that API servers restart
	// once for all of them. A kind that is taken out stays in the phase that it has come to, and does not hold up the end of the others.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Kinds []KeyKind `json:"kinds,omitempty"`

	// prepareAfter begins a rotation once this time has passed: a new key is made, trusted beside the former one, and then used. API
	// servers restart twice for it, one after the other. What the former encryption key encrypted is written again by the new one. For the
	// cluster CA the controller manager and the scheduler restart as often as API servers do, and on each node kubelet's own process does: the
	// DaemonSet kube-system/kok-node-keys, which is in the tenant until the rotation is over, brings nodes the CAs, and restarts no container. For
	// the front-proxy CA the controller manager and the scheduler restart once, and for a CA of etcd its members restart before API servers do,
	// one at a time. A later time asks for another rotation, which begins when the
	// present one is complete. A time that has passed can only become later.
	// +required
	PrepareAfter metav1.Time `json:"prepareAfter,omitempty,omitzero"`

	// completeAfter drops the former key once this time has passed, if it is not before the prepareAfter of the rotation: what was
	// made with that key is refused from then on. Nothing is dropped while something needs it that can be seen: the condition
	// KeysRotating names it. API servers restart for it, one after the other; for the cluster CA and the front-proxy CA, the controller manager
	// and the scheduler, too, and for a CA of etcd its members. For the cluster CA kubelet's own process restarts on each node once more, and the
	// DaemonSet goes in the end.
	// +optional
	CompleteAfter metav1.Time `json:"completeAfter,omitempty,omitzero"`

	// completeAnyway are names from the condition KeysRotating of what is given up although it needs the former key. Nodes that are
	// given up hold up no phase. Names that begin with "other-" give up all that the condition only counts. What the former
	// encryption key encrypted cannot be given up: nobody could read it again.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=340
	CompleteAnyway []string `json:"completeAnyway,omitempty"`
}
