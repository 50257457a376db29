package v1alpha1

import clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

// Comments of conditions and reasons are what docs/reference/conditions.md is made of: the second paragraph
// of a reason says what a person does.

// Conditions of a KOKConfig, besides clusterv1.PausedCondition.
const (
	// ReadyCondition is true while the machine can be, or has been, bootstrapped. While it is not true, it has reason
	// and message of the condition that keeps it from that. Cluster API mirrors it into the Machine's
	// BootstrapConfigReady condition.
	ReadyCondition = clusterv1.ReadyCondition

	// DataSecretAvailableCondition is true once the Secret with the bootstrap data is there; until then
	// the message says what it waits for or what a person must change.
	DataSecretAvailableCondition = "DataSecretAvailable"

	// BootstrapTokenValidCondition is true while the token in the bootstrap data lets the machine join.
	// It turns false, with reason BootstrapTokenRevokedReason, when the machine has joined.
	BootstrapTokenValidCondition = "BootstrapTokenValid"
)

// Reasons of the conditions of a KOKConfig.
const (
	// ReadyReason of ReadyCondition: the bootstrap data is there, and its token is valid or no longer needed.
	ReadyReason = clusterv1.ReadyReason

	// DataSecretAvailableReason of DataSecretAvailableCondition: the Secret is there.
	DataSecretAvailableReason = "Available"

	// WaitingForClusterInfrastructureReason of DataSecretAvailableCondition: the Cluster's infrastructure is not
	// provisioned yet.
	//
	// See the condition InfrastructureReady of the Cluster.
	WaitingForClusterInfrastructureReason = "WaitingForClusterInfrastructure"

	// WaitingForControlPlaneReason of DataSecretAvailableCondition: the control plane did not answer yet.
	//
	// See the conditions of the KOKControlPlane.
	WaitingForControlPlaneReason = "WaitingForControlPlane"

	// WaitingForCAReason of DataSecretAvailableCondition: the Secret with the cluster CA's certificate is not
	// there, or lacks the label with the Cluster's name.
	//
	// Nothing when the control plane is a KOKControlPlane: it makes the Secret. Else make it, with the label.
	WaitingForCAReason = "WaitingForClusterCA"

	// WaitingForAPIServersReason of DataSecretAvailableCondition: the tenant's EndpointSlice default/kubernetes
	// names no API server.
	//
	// Nothing for a minute; after that, see whether the API servers run.
	WaitingForAPIServersReason = "WaitingForAPIServers"

	// APIServersOutOfReachReason of DataSecretAvailableCondition: no address leads from the machine to the tenant's API
	// servers.
	//
	// Create the control plane with another spec.hosting: see docs/network-modes.md.
	APIServersOutOfReachReason = "APIServersOutOfReach"

	// TenantUnreachableReason of DataSecretAvailableCondition: there is no connection to the tenant's API now.
	//
	// See the condition RemoteConnectionProbe of the Cluster: the manager must reach the Cluster's
	// controlPlaneEndpoint.
	TenantUnreachableReason = "TenantUnreachable"

	// InvalidSpecReason of DataSecretAvailableCondition: the KOKConfig, its Machine or its Cluster asks for
	// something that cannot work.
	//
	// Change the field that the message names. Templates are immutable: make a new one and name it in the
	// MachineDeployment.
	InvalidSpecReason = "InvalidSpec"

	// ReconcileFailedReason of DataSecretAvailableCondition: a request to the management cluster or the tenant
	// failed, and is tried again.
	//
	// The message names the request and its answer: remove the cause.
	ReconcileFailedReason = "ReconcileFailed"

	// ReferencedSecretNotFoundReason of DataSecretAvailableCondition: a Secret that spec.files takes content from, or that a
	// mirror of the KOKSoftware names, is not there, or lacks the key.
	//
	// Create the Secret, or add the key, in the namespace of the KOKConfig.
	ReferencedSecretNotFoundReason = "ReferencedSecretNotFound"

	// ReferencedSecretNotForTenantsReason of DataSecretAvailableCondition: a Secret that spec.files takes content from, or that
	// a mirror of the KOKSoftware names, lacks the label by which a person lets it be given to machines.
	//
	// If machines may have its content, run the command in the message.
	ReferencedSecretNotForTenantsReason = "ReferencedSecretNotForTenants"

	// SoftwareNotFoundReason of DataSecretAvailableCondition: the KOKSoftware that spec.software names for the Machine's
	// version is not there.
	//
	// Make it by the command in the message, or name another one in spec.software.
	SoftwareNotFoundReason = "SoftwareNotFound"

	// DataSecretConflictReason of DataSecretAvailableCondition: a Secret with the name of the data Secret is
	// there and belongs to something else.
	//
	// Delete that Secret, or delete the Machine: its replacement has another name.
	DataSecretConflictReason = "DataSecretConflict"

	// DataSecretLostReason of DataSecretAvailableCondition: the data Secret was deleted after it was used. The controller
	// neither makes it again nor renews its token.
	//
	// Delete the Machine if it does not join.
	DataSecretLostReason = "DataSecretLost"

	// BootstrapTokenValidReason of BootstrapTokenValidCondition: the tenant accepts the token.
	BootstrapTokenValidReason = "Valid"

	// BootstrapTokenRevokedReason of BootstrapTokenValidCondition: the machine has joined, or is being deleted, and needs no
	// token.
	BootstrapTokenRevokedReason = "Revoked"

	// BootstrapTokenUnknownReason of BootstrapTokenValidCondition: the tenant could not be reached, or refused.
	//
	// Do as for TenantUnreachableReason. A machine that has not joined before the token ends joins once it is renewed.
	BootstrapTokenUnknownReason = "Unknown"
)
