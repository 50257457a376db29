package v1alpha1

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
	// there. Key material is never made anew once a component was applied; the message says how to
	// restore it.
	CertificatesAvailableCondition = "CertificatesAvailable"

	// EtcdClusterHealthyCondition is true while every member of both etcd clusters is started,
	// healthy and free of alarms.
	EtcdClusterHealthyCondition = "EtcdClusterHealthy"

	// ControlPlaneComponentsHealthyCondition is true while every replica of kube-apiserver,
	// kube-controller-manager and kube-scheduler is ready.
	ControlPlaneComponentsHealthyCondition = "ControlPlaneComponentsHealthy"

	// AddonsInstalledCondition is true while the tenant holds the objects of every addon that is switched
	// on, and of none that is switched off. Their pods run on workers.
	AddonsInstalledCondition = "AddonsInstalled"

	// RollingOutCondition is true while pods of a component are not yet as their workload wants.
	RollingOutCondition = clusterv1.RollingOutCondition

	// ScalingUpCondition is true while a component has fewer replicas than desired.
	ScalingUpCondition = clusterv1.ScalingUpCondition

	// ScalingDownCondition is true while a component has more replicas than desired.
	ScalingDownCondition = clusterv1.ScalingDownCondition

	// ReconciledCondition is true while no step of the last reconcile failed or waits. What runs may
	// be fine while it is false: the message says what cannot be applied.
	ReconciledCondition = "Reconciled"

	// MovableCondition is false while clusterctl move must not take the control plane along; the
	// message says why.
	MovableCondition = "Movable"

	// DeletingCondition is true while the control plane is being deleted; the message says what is
	// still there.
	DeletingCondition = clusterv1.DeletingCondition
)

// Reasons of a KOKControlPlane's conditions.
const (
	// AvailableReason and NotAvailableReason go with AvailableCondition.
	AvailableReason    = clusterv1.AvailableReason
	NotAvailableReason = clusterv1.NotAvailableReason

	// InitializedReason and NotInitializedReason go with InitializedCondition.
	InitializedReason    = "Initialized"
	NotInitializedReason = "NotInitialized"

	// KeyMaterialLostReason: both copies of a key are gone although components use it.
	KeyMaterialLostReason = "KeyMaterialLost"

	// InvalidKeyMaterialReason: a Secret holds something that is no usable key pair, or the two
	// copies of one key differ.
	InvalidKeyMaterialReason = "InvalidKeyMaterial"

	// HealthyReason, UnhealthyReason and HealthUnknownReason go with EtcdClusterHealthyCondition
	// and ControlPlaneComponentsHealthyCondition. Unknown means that it could not be asked.
	HealthyReason       = "Healthy"
	UnhealthyReason     = "Unhealthy"
	HealthUnknownReason = "HealthUnknown"

	// InstalledReason goes with AddonsInstalledCondition.
	InstalledReason = "Installed"

	// HostedByManagementClusterReason and HostedElsewhereReason go with MovableCondition.
	HostedByManagementClusterReason = "HostedByManagementCluster"
	HostedElsewhereReason           = "HostedElsewhere"

	// ReconciledReason goes with ReconciledCondition.
	ReconciledReason = "Reconciled"

	// InvalidSpecReason: the control plane or its Cluster asks for something that cannot work.
	InvalidSpecReason = "InvalidSpec"

	// WaitingReason: a step waits for one before it; the message names both.
	WaitingReason = "Waiting"

	// ReconcileFailedReason: a step failed and is tried again; the message is its error.
	ReconcileFailedReason = "ReconcileFailed"
)
