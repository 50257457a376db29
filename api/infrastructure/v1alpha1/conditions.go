package v1alpha1

import clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

// Conditions of an IDCHost, besides clusterv1.PausedCondition.
const (
	// ReachableCondition is true while the host answers by SSH with a pinned host key and accepts the
	// key of its Secret. It is unknown until the host was asked for the first time.
	ReachableCondition = "Reachable"

	// HealthyCondition is true while the host can be made a machine: sudo without a password, space on
	// its disks, cloud-init, systemd, ip and nft there, and nobody else's machine on it.
	HealthyCondition = "Healthy"

	// AvailableCondition is true while an IDCMachine may claim the host: healthy, not claimed, not in
	// quarantine, not being deleted. Its reason is what people look at first.
	AvailableCondition = clusterv1.AvailableCondition
)

// Reasons of an IDCHost's conditions.
const (
	// ReachableReason: the host answered.
	ReachableReason = "Reachable"
	// NotAskedReason: the host was not asked yet.
	NotAskedReason = "NotAsked"
	// CredentialsInvalidReason: the key Secret is missing or holds nothing that can be used.
	CredentialsInvalidReason = "CredentialsInvalid"
	// HostAwayReason: the host does not answer, or refuses connections.
	HostAwayReason = "HostAway"
	// BastionAwayReason: the bastion in front of the host does not let us through.
	BastionAwayReason = "BastionAway"
	// HostKeyMismatchReason: who answers has another host key than those that are pinned.
	HostKeyMismatchReason = "HostKeyMismatch"
	// AuthenticationFailedReason: the host does not accept the key.
	AuthenticationFailedReason = "AuthenticationFailed"

	// HealthyReason: the host can be made a machine.
	HealthyReason = "Healthy"
	// NotReachableReason: what could not be asked is unknown.
	NotReachableReason = "NotReachable"
	// SudoMissingReason: the user may not become root without a password.
	SudoMissingReason = "SudoMissing"
	// DiskFullReason: a file system has too little space or too few inodes.
	DiskFullReason = "DiskFull"
	// SoftwareMissingReason: cloud-init, systemd, ip or nft is not there, or cloud-init is switched off.
	SoftwareMissingReason = "SoftwareMissing"
	// InUseReason: the host carries a machine that this inventory does not know of.
	InUseReason = "InUse"
	// ProbeFailedReason: a check failed in a way that has no reason of its own.
	ProbeFailedReason = "ProbeFailed"

	// FreeReason, ClaimedReason, ClaimLostReason, QuarantinedReason, NotHealthyReason and DeletingReason
	// go with AvailableCondition. ClaimLost: the IDCMachine that claimed the host is gone.
	FreeReason        = "Free"
	ClaimedReason     = "Claimed"
	ClaimLostReason   = "ClaimLost"
	QuarantinedReason = "Quarantined"
	NotHealthyReason  = "NotHealthy"
	DeletingReason    = clusterv1.DeletingReason
)

// Conditions of an IDCMachine, besides clusterv1.PausedCondition.
const (
	// ReadyCondition sums up an IDCMachine; Cluster API mirrors it into the Machine's
	// InfrastructureReady condition. Of an IDCCluster it is true from the start.
	ReadyCondition = clusterv1.ReadyCondition

	// HostClaimedCondition is true while a host is reserved for the machine alone.
	HostClaimedCondition = "HostClaimed"

	// BootstrappedCondition turns true once cloud-init made a node of the host. While it runs the
	// message says how far it is, and after a failure it ends with the last lines of its output.
	BootstrappedCondition = "Bootstrapped"

	// DeletingCondition is true while the machine is being deleted; the message says what is done.
	DeletingCondition = clusterv1.DeletingCondition
)

// Reasons of an IDCMachine's conditions.
const (
	// ReadyReason and NotReadyReason go with ReadyCondition.
	ReadyReason    = clusterv1.ReadyReason
	NotReadyReason = clusterv1.NotReadyReason

	// WaitingForClusterReason: the Cluster's infrastructure is not provisioned yet.
	WaitingForClusterReason = "WaitingForCluster"
	// WaitingForBootstrapDataReason: the bootstrap provider did not make the data yet.
	WaitingForBootstrapDataReason = "WaitingForBootstrapData"
	// NoHostReason: no free and healthy host matches; the message counts why.
	NoHostReason = "NoHost"
	// HostClaimedReason: a host is reserved.
	HostClaimedReason = "HostClaimed"
	// HostLostReason: the machine's host is gone, or belongs to another machine.
	HostLostReason = "HostLost"

	// BootstrappedReason: cloud-init succeeded.
	BootstrappedReason = "Bootstrapped"
	// BootstrappingReason: cloud-init is being prepared, or runs.
	BootstrappingReason = "Bootstrapping"
	// BootstrapFailedReason: cloud-init ended without success. New bootstrap data is tried; otherwise a
	// person, or a MachineHealthCheck, deletes the Machine.
	BootstrapFailedReason = "BootstrapFailed"
	// BootstrapDataInvalidReason: the bootstrap data cannot be used.
	BootstrapDataInvalidReason = "BootstrapDataInvalid"

	// CleaningUpReason and NotDeletingReason go with DeletingCondition.
	CleaningUpReason  = "CleaningUp"
	NotDeletingReason = clusterv1.NotDeletingReason
)
