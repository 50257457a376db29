package conditions

import clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

// Conditions of a KOKControlPlane, besides clusterv1.PausedCondition.
const (
	// AvailableCondition is true while the tenant's API can be used: initialized, certificates
	// there, both etcd clusters with quorum, and every component with at least one ready replica.
	// Cluster API mirrors it into the Cluster's ControlPlaneAvailable condition.
	AvailableCondition = clusterv1.AvailableCondition

	// InitializedCondition turns true once the tenant's API server answered for the first time
	// and the objects that joining machines need were written; it never turns back.
	InitializedCondition = "Initialized"

	// CertificatesAvailableCondition is true while every key pair and certificate of the tenant is
	// there. Key material is never made anew while a component or its data exist, or once the tenant was initialized.
	CertificatesAvailableCondition = "CertificatesAvailable"

	// EtcdClusterHealthyCondition is true while every member of both etcd clusters is started,
	// healthy and free of alarms.
	EtcdClusterHealthyCondition = "EtcdClusterHealthy"

	// EtcdRecoveringCondition is true while a member of an etcd cluster has lost its data or its host node, or may have: it
	// is replaced, it waits for that, or a person must act.
	EtcdRecoveringCondition = "EtcdRecovering"

	// EtcdBackedUpCondition is true while the newest verified snapshot of the data etcd is no older than
	// `spec.etcd.backup.maxAge`. It is there only with `spec.etcd.backup`. After a rotation of a key its message
	// says so until a verified snapshot was taken since. No other condition depends on it.
	EtcdBackedUpCondition = "EtcdBackedUp"

	// KeysRotatingCondition is true while a key of the control plane rotates: the message has a line for each kind of key, with the
	// phase, what waits and for whom. It is there only with `spec.keyRotation`, and until a rotation that has begun is over. No other condition depends on it.
	KeysRotatingCondition = "KeysRotating"

	// ControlPlaneComponentsHealthyCondition is true while every replica of kube-apiserver,
	// kube-controller-manager and kube-scheduler is ready.
	ControlPlaneComponentsHealthyCondition = "ControlPlaneComponentsHealthy"

	// AddonsInstalledCondition is true while the tenant holds the objects of every addon that is switched
	// on, and of none that is switched off. Their pods run on workers.
	AddonsInstalledCondition = "AddonsInstalled"

	// EgressConfinedCondition is true while every connection of every API server to nodes, pods, Services and webhooks goes
	// through the tenant's workers. While it is false, the tenant's administrators can make API servers connect to addresses
	// that host nodes reach. No other condition depends on it.
	EgressConfinedCondition = "EgressConfined"

	// RollingOutCondition is true while pods of a component are not yet as their workload wants.
	RollingOutCondition = clusterv1.RollingOutCondition

	// ScalingUpCondition is true while a component has fewer replicas than desired.
	ScalingUpCondition = clusterv1.ScalingUpCondition

	// ScalingDownCondition is true while a component has more replicas than desired.
	ScalingDownCondition = clusterv1.ScalingDownCondition

	// ReconciledCondition is true while no step of the last reconcile failed, waits or is postponed, and nothing needs a person.
	// What runs may be fine while it is false: the message says what cannot be applied.
	ReconciledCondition = "Reconciled"

	// MovableCondition is false while clusterctl move must not take the control plane along.
	MovableCondition = "Movable"

	// DeletingCondition is true while the control plane is being deleted.
	DeletingCondition = clusterv1.DeletingCondition
)

// Reasons of the conditions of a KOKControlPlane.
const (
	// AvailableReason of AvailableCondition and CertificatesAvailableCondition: all is there.
	AvailableReason = clusterv1.AvailableReason

	// NotAvailableReason of AvailableCondition: the API was not initialized yet, key material is unusable, an etcd cluster has
	// no quorum of ready members, or another component has no ready pod.
	//
	// The message names each component and pod, and what is wrong with it. Put that right. Other replicas and workers go on
	// meanwhile as far as they can.
	NotAvailableReason = clusterv1.NotAvailableReason

	// InitializedReason of InitializedCondition: the API has answered.
	InitializedReason = "Initialized"

	// NotInitializedReason of InitializedCondition: the API did not answer yet.
	//
	// Nothing for the first minutes. The message names the step that creation waits for, or its error.
	NotInitializedReason = "NotInitialized"

	// KeyMaterialLostReason of CertificatesAvailableCondition: both copies of a key are gone although components
	// use it. Nothing is made anew: data and workers would be lost. Etcd's members and pods stay as they are meanwhile.
	//
	// Restore one of the two Secrets that the message names from a backup; the other is made from it.
	KeyMaterialLostReason = "KeyMaterialLost"

	// InvalidKeyMaterialReason of CertificatesAvailableCondition: a Secret holds no usable key pair, or the two copies of one
	// key differ. Etcd's members and pods stay as they are meanwhile.
	//
	// The message names the Secret and its data key, and what to delete so that the other copy counts.
	InvalidKeyMaterialReason = "InvalidKeyMaterial"

	// KeysNotRotatingReason of KeysRotatingCondition: the rotation that was asked for last is over, or its time has not come.
	KeysNotRotatingReason = "KeysNotRotating"

	// KeysPreparingReason of KeysRotatingCondition: a new key comes into use, beside the former one.
	//
	// Nothing while it goes on. What it waits for longer, such as a pod on a host node that is away, the message names. A Node that does
	// not come to have the keys is mended, deleted, or given up by `spec.keyRotation.completeAnyway`.
	KeysPreparingReason = "KeysPreparing"

	// KeysPreparedReason of KeysRotatingCondition: the new key is in use, and what was made with the former one is accepted still.
	//
	// Mend what the message names, or give it up, and set `spec.keyRotation.completeAfter`.
	KeysPreparedReason = "KeysPrepared"

	// KeysCompletingReason of KeysRotatingCondition: the former key goes from all that trusts it.
	//
	// Nothing while it goes on. What it waits for longer, such as a pod on a host node that is away, the message names. A Node that does
	// not come to have the keys is mended, deleted, or given up by `spec.keyRotation.completeAnyway`.
	KeysCompletingReason = "KeysCompleting"

	// KeysUnknownReason of KeysRotatingCondition: key material cannot be read, or cannot be used. What runs goes on with the keys that
	// it has.
	//
	// See CertificatesAvailable.
	KeysUnknownReason = "KeysUnknown"

	// HealthyReason of EtcdClusterHealthyCondition and ControlPlaneComponentsHealthyCondition: every member or
	// replica works.
	//
	// Nothing. The message may name a quota that leaves no room on the volume to write a full database anew: do what it says.
	HealthyReason = "Healthy"

	// UnhealthyReason of EtcdClusterHealthyCondition and ControlPlaneComponentsHealthyCondition: not every
	// member or replica works. The tenant may be available all the same.
	//
	// The message names each member or pod, and what it reported last. Repair them one by one.
	UnhealthyReason = "Unhealthy"

	// SpaceExhaustedReason of EtcdClusterHealthyCondition: an etcd has reached its quota and takes no writes. The controller
	// drops old versions of keys, writes the members' files anew and ends the alarm.
	//
	// Nothing, where that suffices. Else the message says what is in the way: delete objects, or give etcd more.
	SpaceExhaustedReason = "SpaceExhausted"

	// HealthUnknownReason of AvailableCondition, EtcdClusterHealthyCondition, EtcdRecoveringCondition and
	// ControlPlaneComponentsHealthyCondition: there is no way to the pods, or the host cluster does not hear
	// from their nodes. What runs there goes on. It is also the reason while keys or certificates cannot be had,
	// without which etcd is not observed, and until etcd was observed for the first time.
	//
	// Bring back the link to the host nodes that the message names. If one is gone for good, delete its Node
	// object. Without keys see CertificatesAvailable.
	HealthUnknownReason = "HealthUnknown"

	// NotRecoveringReason of EtcdRecoveringCondition: no member is known to be lost.
	NotRecoveringReason = "NotRecovering"

	// RecoveringReason of EtcdRecoveringCondition: a lost member is replaced, or waits for what the message names.
	//
	// Nothing while it goes on. What it waits for longer, such as a host node, the message says.
	RecoveringReason = "Recovering"

	// RestoringReason of EtcdRecoveringCondition: an etcd is founded anew, as `spec.etcd.restore` or `spec.etcd.events.foundAnewAt`
	// asks, or as `spec.etcd.recovery` allows without a person. While the data etcd is founded anew, the API does not answer.
	//
	// Nothing while it goes on. What it waits for longer, such as a host node, the message says.
	RestoringReason = "Restoring"

	// NeedsDecisionReason of EtcdRecoveringCondition: the controller gives up no data by itself here, unless
	// `spec.etcd.recovery` allows it.
	//
	// The message says what to decide, and the command for it.
	NeedsDecisionReason = "NeedsDecision"

	// BackedUpReason of EtcdBackedUpCondition: the newest verified snapshot is young enough.
	BackedUpReason = "BackedUp"

	// BackupTooOldReason of EtcdBackedUpCondition: the newest verified snapshot is older than `spec.etcd.backup.maxAge`, or no
	// snapshot was verified yet. Members tell of no problem.
	//
	// Wait for the first snapshot of a new tenant. Else read the logs of the container backup in the pods of the data etcd.
	BackupTooOldReason = "BackupTooOld"

	// StoreUnreachableReason of EtcdBackedUpCondition: a snapshot could not be taken, stored or tried.
	// The message names the field of `spec.etcd.backup` that is wrong, where one is.
	//
	// Mend what the message names. The next try comes within minutes.
	StoreUnreachableReason = "StoreUnreachable"

	// InstalledReason of AddonsInstalledCondition: the tenant has them.
	InstalledReason = "Installed"

	// ConfinedReason of EgressConfinedCondition: API servers dial none of these addresses by themselves.
	ConfinedReason = "Confined"

	// KonnectivityOffReason of EgressConfinedCondition: `spec.addons.konnectivity.mode` is not Managed.
	//
	// Set `spec.addons.konnectivity.mode` to Managed, where workers have the local load balancer. API servers restart,
	// one after the other.
	KonnectivityOffReason = "KonnectivityOff"

	// NodePortExposureReason of EgressConfinedCondition: with `spec.hosting.exposure.type` NodePort there is no port at which
	// konnectivity's agents could reach its servers.
	//
	// Leave it so where the tenant's administrators may reach what host nodes reach, or let the host cluster's network
	// keep API servers' pods from other addresses. Else create a control plane with the exposure LoadBalancer, or on the
	// host network.
	NodePortExposureReason = "NodePortExposure"

	// OlderRenderingReason of EgressConfinedCondition: API servers run as an older release rendered them, which confines
	// less. An upgrade of the provider restarts no pod.
	//
	// Set `spec.rollout.after` to a time that has passed, or wait for the next change that restarts API servers.
	OlderRenderingReason = "OlderRendering"

	// RollingOutReason of RollingOutCondition and EgressConfinedCondition: pods are being replaced.
	//
	// Nothing for some minutes; the message counts the pods of each component and says what the next one waits for.
	RollingOutReason = clusterv1.RollingOutReason

	// NotRollingOutReason of RollingOutCondition: every pod is up to date.
	NotRollingOutReason = clusterv1.NotRollingOutReason

	// ScalingUpReason of ScalingUpCondition: pods or members are missing.
	//
	// Nothing for some minutes; the message says what the next one waits for, such as a host node with room.
	ScalingUpReason = clusterv1.ScalingUpReason

	// NotScalingUpReason of ScalingUpCondition: no pod or member is missing.
	NotScalingUpReason = clusterv1.NotScalingUpReason

	// ScalingDownReason of ScalingDownCondition: pods or members are about to be removed.
	//
	// Nothing for some minutes; the message says what the next one waits for.
	ScalingDownReason = clusterv1.ScalingDownReason

	// NotScalingDownReason of ScalingDownCondition: no pod or member is about to be removed.
	NotScalingDownReason = clusterv1.NotScalingDownReason

	// HostedByManagementClusterReason of MovableCondition: pods and data are in the management cluster, and
	// clusterctl move would delete them there.
	//
	// Leave the control plane where it is. If somebody tried to move it, set spec.paused of its Cluster to false.
	HostedByManagementClusterReason = "HostedByManagementCluster"

	// HostedElsewhereReason of MovableCondition: pods and data are in another cluster and stay there.
	HostedElsewhereReason = "HostedElsewhere"

	// ReconciledReason of ReconciledCondition: everything is applied.
	ReconciledReason = "Reconciled"

	// InvalidSpecReason of AvailableCondition: the spec of the control plane or of its Cluster cannot work. Nothing was made
	// or changed.
	//
	// Change the field that the message names.
	InvalidSpecReason = "InvalidSpec"

	// NotReferencedReason of AvailableCondition: another object is the Cluster's control plane. Nothing was made or changed.
	//
	// Delete this object, which leaves the tenant alone, or correct spec.controlPlaneRef of the Cluster.
	NotReferencedReason = "NotReferenced"

	// HostClusterConnectingReason of AvailableCondition, EtcdClusterHealthyCondition, EtcdRecoveringCondition,
	// EtcdBackedUpCondition, KeysRotatingCondition, ControlPlaneComponentsHealthyCondition and ReconciledCondition: the host cluster that
	// spec.hosting.kubeconfigRef names is not connected yet.
	//
	// Nothing for some seconds.
	HostClusterConnectingReason = "HostClusterConnecting"

	// HostClusterUnreachableReason of AvailableCondition, EtcdClusterHealthyCondition, EtcdRecoveringCondition,
	// EtcdBackedUpCondition, KeysRotatingCondition, ControlPlaneComponentsHealthyCondition and ReconciledCondition: the host cluster that
	// spec.hosting.kubeconfigRef names does not answer, or refuses. What runs there goes on.
	//
	// Bring back the way to the host cluster, give the account of the kubeconfig the rights that the message
	// names, or put another token into the Secret.
	HostClusterUnreachableReason = "HostClusterUnreachable"

	// InvalidHostKubeconfigReason of AvailableCondition, EtcdClusterHealthyCondition, EtcdRecoveringCondition,
	// EtcdBackedUpCondition, KeysRotatingCondition, ControlPlaneComponentsHealthyCondition and ReconciledCondition: the Secret that spec.hosting.kubeconfigRef
	// names is not there, or its kubeconfig is refused. What runs in the host cluster goes on.
	//
	// Make or correct the Secret as the message says.
	InvalidHostKubeconfigReason = "InvalidHostKubeconfig"

	// WaitingReason of CertificatesAvailableCondition, AddonsInstalledCondition, EgressConfinedCondition and
	// ReconciledCondition: a step waits for what the message says, such as pods that start. Those after it wait, too.
	//
	// Nothing for some minutes; after that, look at the step that the message names.
	WaitingReason = "Waiting"

	// ReconcileFailedReason of CertificatesAvailableCondition, AddonsInstalledCondition and ReconciledCondition: a
	// step failed and is tried again, or something needs a person while all else goes on.
	//
	// The message says which. Where an API server refused, it has the answer: remove its cause, such as a quota, a webhook
	// or a patch that does not fit.
	ReconcileFailedReason = "ReconcileFailed"

	// DeletingReason of AvailableCondition and DeletingCondition: the control plane is being deleted.
	//
	// The message lists what is still there. A pod that stays is on a node that does not confirm its end: bring
	// the node back or delete its Node object. A claim that stays waits for its storage provisioner.
	DeletingReason = clusterv1.DeletingReason

	// NotDeletingReason of DeletingCondition: the control plane is not being deleted.
	NotDeletingReason = clusterv1.NotDeletingReason
)
