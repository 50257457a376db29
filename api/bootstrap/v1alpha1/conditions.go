package v1alpha1

import clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

// Conditions of a KOKConfig, besides clusterv1.PausedCondition.
const (
	// ReadyCondition is true while the machine can be, or has been, bootstrapped. Cluster API mirrors
	// it into the Machine's BootstrapConfigReady condition.
	ReadyCondition = clusterv1.ReadyCondition

	// DataSecretAvailableCondition is true once the Secret with the bootstrap data is there; until then
	// the message says what it waits for or what a person must change.
	DataSecretAvailableCondition = "DataSecretAvailable"

	// BootstrapTokenValidCondition is true while the token in the bootstrap data lets the machine join.
	// It turns false, with reason BootstrapTokenRevokedReason, when the machine has joined.
	BootstrapTokenValidCondition = "BootstrapTokenValid"
)

// Reasons of a KOKConfig's conditions.
const (
	// ReadyReason goes with ReadyCondition while it is true; otherwise it has the reason of the condition that
	// keeps it from that.
	ReadyReason = clusterv1.ReadyReason

	// DataSecretAvailableReason goes with DataSecretAvailableCondition.
	DataSecretAvailableReason = "Available"

	// WaitingForClusterInfrastructureReason: the Cluster's infrastructure is not provisioned yet.
	WaitingForClusterInfrastructureReason = "WaitingForClusterInfrastructure"

	// WaitingForControlPlaneReason: the control plane did not answer yet.
	WaitingForControlPlaneReason = "WaitingForControlPlane"

	// WaitingForCAReason: the Secret with the cluster CA's certificate is not there.
	WaitingForCAReason = "WaitingForClusterCA"

	// WaitingForAPIServersReason: the tenant's EndpointSlice names no API server.
	WaitingForAPIServersReason = "WaitingForAPIServers"

	// APIServersOutOfReachReason: the machine is where no address leads to the tenant's API servers.
	APIServersOutOfReachReason = "APIServersOutOfReach"

	// TenantUnreachableReason: there is no connection to the tenant's API now.
	TenantUnreachableReason = "TenantUnreachable"

	// InvalidSpecReason: the KOKConfig, its Machine or its Cluster asks for something that cannot work.
	InvalidSpecReason = "InvalidSpec"

	// ReconcileFailedReason: a request to the management cluster or the tenant failed, and is tried again; the
	// message says which and how.
	ReconcileFailedReason = "ReconcileFailed"

	// ReferencedSecretNotFoundReason: a Secret that spec.files takes content from is not there.
	ReferencedSecretNotFoundReason = "ReferencedSecretNotFound"

	// DataSecretConflictReason: a Secret with the name of the data Secret is there and belongs to
	// something else.
	DataSecretConflictReason = "DataSecretConflict"

	// DataSecretLostReason: the data Secret was deleted after it was used; it is not made again.
	DataSecretLostReason = "DataSecretLost"

	// BootstrapTokenValidReason, BootstrapTokenRevokedReason and BootstrapTokenUnknownReason go with
	// BootstrapTokenValidCondition. Unknown means that the tenant could not be asked, or
	// refused.
	BootstrapTokenValidReason   = "Valid"
	BootstrapTokenRevokedReason = "Revoked"
	BootstrapTokenUnknownReason = "Unknown"
)
