package v1alpha1

import clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

// Comments of conditions and reasons are what docs/reference/conditions.md is made of: the second paragraph
// of a reason says what a person does.

// Conditions of an IDCHost, besides clusterv1.PausedCondition.
const (
	// ReachableCondition is true while the host answers by SSH with a pinned host key and accepts the
	// key of its Secret.
	ReachableCondition = "Reachable"

	// HealthyCondition is true while the host can be made a machine: sudo without a password, space on
	// its disks, cloud-init, systemd, ip and nft are there, a node's folders are no links, and it is not in use.
	HealthyCondition = "Healthy"

	// AvailableCondition is true while an IDCMachine may claim the host: healthy, not claimed, not in
	// quarantine, not being deleted. Its reason is what people look at first.
	AvailableCondition = clusterv1.AvailableCondition
)

// Reasons of the conditions of an IDCHost. A claimed host stays with its machine whatever the conditions say, and work on
// it goes on once a person has put it right.
const (
	// ReachableReason of ReachableCondition: the host answered.
	ReachableReason = "Reachable"

	// NotAskedReason of ReachableCondition and HealthyCondition: the host was not probed yet.
	//
	// Nothing for a minute.
	NotAskedReason = "NotAsked"

	// CredentialsInvalidReason of ReachableCondition: the key Secret is missing or holds nothing that can be used.
	//
	// Put the private key into the Secret that spec.keySecretRef names, as ssh-privatekey; the host keys into
	// spec.hostKeys as they are in /etc/ssh/ssh_host_*_key.pub.
	CredentialsInvalidReason = "CredentialsInvalid"

	// HostAwayReason of ReachableCondition: the host does not answer, or refuses connections.
	//
	// See to its power, its network, its SSH server, and to spec.address.
	HostAwayReason = "HostAway"

	// BastionAwayReason of ReachableCondition: there is no way through the bastion in front of the host.
	//
	// See to the bastion's power, network and SSH server. The server needs AllowTcpForwarding.
	BastionAwayReason = "BastionAway"

	// HostKeyMismatchReason of ReachableCondition: the server that answers has another host key than the pinned
	// ones.
	//
	// Find out why. If the host was installed anew, change spec.hostKeys.
	HostKeyMismatchReason = "HostKeyMismatch"

	// AuthenticationFailedReason of ReachableCondition: the host does not accept the key.
	//
	// Add the public key to authorized_keys of spec.user, or change the Secret.
	AuthenticationFailedReason = "AuthenticationFailed"

	// ProbeFailedReason of ReachableCondition: the probe failed in a way that has no reason of its own.
	//
	// The message is the error. The host is probed again every 15 seconds.
	ProbeFailedReason = "ProbeFailed"

	// HealthyReason of HealthyCondition: the host can be made a machine.
	HealthyReason = "Healthy"

	// NotReachableReason of HealthyCondition: the host could not be probed, so nothing is known of its health.
	//
	// See ReachableCondition.
	NotReachableReason = "NotReachable"

	// SudoMissingReason of HealthyCondition: the user may not become root without a password.
	//
	// Add "<user> ALL=(ALL) NOPASSWD: ALL" to /etc/sudoers.d.
	SudoMissingReason = "SudoMissing"

	// DiskFullReason of HealthyCondition: a file system has too little space or too few inodes.
	//
	// Make room on the one that the message names.
	DiskFullReason = "DiskFull"

	// SoftwareMissingReason of HealthyCondition: cloud-init, systemd, ip or nft is not there, or cloud-init is
	// switched off.
	//
	// Install what the message names, or remove the file that switches it off.
	SoftwareMissingReason = "SoftwareMissing"

	// FolderIsLinkReason of HealthyCondition: a folder of a node, such as /var/lib/kubelet, or one above it is a symbolic link. A
	// clean-up would remove the link, and leave keys and volumes behind it for the next machine.
	//
	// Mount the disk at the path that the message names, instead of the link.
	FolderIsLinkReason = "FolderIsLink"

	// InUseReason of HealthyCondition: the host is in use. A kubelet runs on it, it has /etc/kubernetes/kubelet.conf or
	// the address of a Node of the host cluster, or it carries a machine that this inventory does not know of.
	//
	// Delete the IDCHost, or set spec.takeOver to the fact in the message if the machine may be wiped:
	// docs/data-centre-hosts.md#hosts-that-others-use. Remove a host with a machine of another inventory from one of the
	// two; if the other one is gone, clean the host by hand: docs/data-centre-hosts.md#clean-a-host-by-hand.
	InUseReason = "InUse"

	// FreeReason of AvailableCondition: a machine may claim the host.
	FreeReason = "Free"

	// ClaimedReason of AvailableCondition: a machine has the host.
	ClaimedReason = "Claimed"

	// ClaimLostReason of AvailableCondition: the IDCMachine that claimed the host is gone without giving it back.
	//
	// While clusterctl move runs, wait: the machine comes after its host. Else run the command of the message: the
	// controller cleans the host.
	ClaimLostReason = "ClaimLost"

	// QuarantinedReason of AvailableCondition: a person took the host out, or its clean-up failed.
	//
	// The message says why. Clean the host, docs/data-centre-hosts.md#clean-a-host-by-hand, then remove
	// spec.quarantine. A host that was only away is cleaned by the controller when it answers.
	QuarantinedReason = "Quarantined"

	// NotHealthyReason of AvailableCondition: the host is not reachable or not healthy.
	//
	// See ReachableCondition and HealthyCondition. The host is free again once they are true.
	NotHealthyReason = "NotHealthy"

	// DeletingReason of AvailableCondition: the IDCHost is being deleted.
	//
	// It goes when its machine has given the host back: delete the Machine that the message names.
	DeletingReason = clusterv1.DeletingReason
)

// Conditions of an IDCMachine, and of an IDCCluster, besides clusterv1.PausedCondition. An IDCCluster has
// ReadyCondition alone, true from the start.
const (
	// ReadyCondition sums up an IDCMachine: while it is not true, it has reason and message of the condition that keeps
	// it from that. Cluster API mirrors it into the Machine's InfrastructureReady condition.
	ReadyCondition = clusterv1.ReadyCondition

	// HostClaimedCondition is true while a host is reserved for the machine alone.
	HostClaimedCondition = "HostClaimed"

	// BootstrappedCondition turns true once cloud-init made a node of the host. While cloud-init runs, the message says how
	// far it is. After a failure the message says what kok-software could not install, or has the last lines of the output
	// of cloud-init. While the claimed host cannot be worked on, the condition has the reason that ReachableCondition or
	// HealthyCondition of the IDCHost would have.
	BootstrappedCondition = "Bootstrapped"

	// DeletingCondition is true while the machine is being deleted; the message says what is done.
	DeletingCondition = clusterv1.DeletingCondition
)

// Reasons of the conditions of an IDCMachine, and of an IDCCluster.
const (
	// ReadyReason of ReadyCondition: the machine is a node; an IDCCluster needs nothing.
	ReadyReason = clusterv1.ReadyReason

	// WaitingForClusterReason of HostClaimedCondition: the Cluster's infrastructure is not provisioned yet.
	//
	// See the condition InfrastructureReady of the Cluster.
	WaitingForClusterReason = "WaitingForCluster"

	// WaitingForBootstrapDataReason of HostClaimedCondition: the bootstrap provider did not make the data yet.
	//
	// See the conditions of the machine's KOKConfig.
	WaitingForBootstrapDataReason = "WaitingForBootstrapData"

	// NoHostReason of HostClaimedCondition: no free and healthy host matches. The message counts the hosts by what is against them.
	//
	// Add IDCHosts, or see why the others are not Free.
	NoHostReason = "NoHost"

	// HostClaimedReason of HostClaimedCondition: a host is reserved.
	HostClaimedReason = "HostClaimed"

	// HostLostReason of HostClaimedCondition: the machine's host is gone, or belongs to another machine.
	//
	// Delete the Machine: its replacement gets another host.
	HostLostReason = "HostLost"

	// BootstrappedReason of BootstrappedCondition: cloud-init succeeded. When a source of software failed and another one gave
	// the file, the message names the failed one, here and in ReadyCondition.
	BootstrappedReason = "Bootstrapped"

	// BootstrappingReason of BootstrappedCondition: cloud-init is being prepared, or runs.
	//
	// Nothing for some minutes. The message says which stage runs, or after which error it is tried again.
	BootstrappingReason = "Bootstrapping"

	// BootstrapFailedReason of BootstrappedCondition: cloud-init ended without success. It is not tried again with
	// the same bootstrap data.
	//
	// Put the cause right: the end of its output names it. Then delete the Machine, or let a MachineHealthCheck do so. Its
	// host is cleaned and used again.
	BootstrapFailedReason = "BootstrapFailed"

	// SoftwareNotForHostReason of BootstrappedCondition: no variant of the KOKSoftware is for the host's distribution, version
	// and architecture.
	//
	// Make a KOKSoftware with such a variant and name it in a new KOKConfigTemplate, or let the hostSelector of a new
	// IDCMachineTemplate choose other hosts. Then delete the Machine.
	SoftwareNotForHostReason = "SoftwareNotForHost"

	// SoftwareNotAvailableReason of BootstrappedCondition: no server gave the host a file with the right SHA-256, or a
	// package.
	//
	// See to the server that the message names, and to the host's way there; or set spec.mirrors of the KOKSoftware. Then
	// delete the Machine.
	SoftwareNotAvailableReason = "SoftwareNotAvailable"

	// NoRoomForSoftwareReason of BootstrappedCondition: a disk of the host is full.
	//
	// Make room on the host, then delete the Machine.
	NoRoomForSoftwareReason = "NoRoomForSoftware"

	// SoftwareNotWorkingReason of BootstrappedCondition: what was installed on the host does not pass its check.
	//
	// Run journalctl -u <unit> on the host, which shows why. Make a KOKSoftware with a version that works and name it in a
	// new KOKConfigTemplate, or put the host right. Then delete the Machine.
	SoftwareNotWorkingReason = "SoftwareNotWorking"

	// SoftwareNotInstalledReason of BootstrappedCondition: the software could not be installed for another cause.
	//
	// The message says why, and journalctl -u kok-bootstrap on the host says more. Put that right, then delete the Machine.
	SoftwareNotInstalledReason = "SoftwareNotInstalled"

	// BootstrapDataInvalidReason of BootstrappedCondition: the bootstrap data cannot be used.
	//
	// The message says why. Correct the bootstrap template, and delete the Machine.
	BootstrapDataInvalidReason = "BootstrapDataInvalid"

	// CleaningUpReason of ReadyCondition and DeletingCondition: the host is being cleaned.
	//
	// Nothing: the machine goes after a minute when its host is away, and after three tries when the host cannot be cleaned.
	CleaningUpReason = "CleaningUp"

	// NotDeletingReason of DeletingCondition: the machine is not being deleted.
	NotDeletingReason = clusterv1.NotDeletingReason
)
