package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

// ownedHostConditions are the conditions that the controller sets.
var ownedHostConditions = []string{
	clusterv1.PausedCondition, infrav1.ReachableCondition, infrav1.HealthyCondition, infrav1.AvailableCondition,
}

// setHostConditions writes what a probe saw into the status. Until the first probe of this program has ended, the stored
// conditions stay: a restart of the manager makes no host unavailable.
func setHostConditions(host *infrav1.IDCHost, seen hostSeen, answered bool, user hostUser) {
	if answered || conditions.Get(host, infrav1.ReachableCondition) == nil {
		conditions.Set(host, reachable(seen, answered))
		conditions.Set(host, healthy(seen, answered))
	}
	if answered && seen.facts != nil {
		setFacts(host, seen.facts)
	}
	conditions.Set(host, available(host, user))
}

func condition(conditionType string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: errortext.Short(message, longestMessage)}
}

// longestMessage is the most bytes of a message: an API server takes 32 KiB, and refuses all of a status with a longer one.
const longestMessage = 16 << 10

// reachable is the condition about the way to the host.
func reachable(seen hostSeen, answered bool) metav1.Condition {
	const name = infrav1.ReachableCondition
	var failed *ssh.Error
	switch {
	case !answered:
		return condition(name, metav1.ConditionUnknown, infrav1.NotAskedReason, "the first probe of the host is under way")
	case seen.err == nil:
		return condition(name, metav1.ConditionTrue, infrav1.ReachableReason, "")
	case errors.As(seen.err, &failed):
		return condition(name, metav1.ConditionFalse, reachReason(failed), failed.Error())
	case errors.Is(seen.err, context.DeadlineExceeded):
		return condition(name, metav1.ConditionUnknown, infrav1.ProbeFailedReason, fmt.Sprintf("the host is too slow: after %s the probe had not ended (%v); "+
			"see to its load, and that it can look up its own name, for which sudo may wait for a DNS server", probeTimeout, seen.err))
	default:
		return condition(name, metav1.ConditionUnknown, infrav1.ProbeFailedReason, seen.err.Error())
	}
}

func reachReason(failed *ssh.Error) string {
	switch {
	case failed.Reason == ssh.CredentialsInvalid:
		return infrav1.CredentialsInvalidReason
	case failed.Bastion && failed.Reason == ssh.Away:
		return infrav1.BastionAwayReason
	case failed.Reason == ssh.HostKeyMismatch:
		return infrav1.HostKeyMismatchReason
	case failed.Reason == ssh.AuthenticationFailed:
		return infrav1.AuthenticationFailedReason
	default:
		return infrav1.HostAwayReason
	}
}

// healthReasons maps a host's problems to reasons of HealthyCondition.
var healthReasons = map[string]string{
	probe.SudoMissing: infrav1.SudoMissingReason, probe.DiskFull: infrav1.DiskFullReason,
	probe.SoftwareMissing: infrav1.SoftwareMissingReason, probe.InUse: infrav1.InUseReason,
	probe.FolderIsLink: infrav1.FolderIsLinkReason,
}

// healthy is the condition about the host itself.
func healthy(seen hostSeen, answered bool) metav1.Condition {
	const name = infrav1.HealthyCondition
	switch {
	case !answered:
		return condition(name, metav1.ConditionUnknown, infrav1.NotAskedReason, "the first probe of the host is under way")
	case seen.err != nil:
		return condition(name, metav1.ConditionUnknown, infrav1.NotReachableReason, "see condition "+infrav1.ReachableCondition)
	case seen.problem != nil:
		return condition(name, metav1.ConditionFalse, healthReasons[seen.problem.Reason], seen.problem.Message)
	case seen.takenOver != "":
		return condition(name, metav1.ConditionTrue, infrav1.HealthyReason, "spec.takeOver lets this machine be wiped, although it is in use: "+seen.takenOver)
	default:
		return condition(name, metav1.ConditionTrue, infrav1.HealthyReason, "")
	}
}

// available is the condition that says whether a machine may claim the host.
func available(host *infrav1.IDCHost, user hostUser) metav1.Condition {
	const name = infrav1.AvailableCondition
	no := func(reason, message string) metav1.Condition {
		return condition(name, metav1.ConditionFalse, reason, message)
	}
	switch {
	case host.Spec.Claim != nil && user.machine == nil:
		return no(infrav1.ClaimLostReason, claimLost(host))
	case host.Spec.Claim != nil && !host.DeletionTimestamp.IsZero():
		return no(infrav1.DeletingReason, fmt.Sprintf("the host goes when IDCMachine %s gave it back; delete that Machine", host.Spec.Claim.Name))
	case host.Spec.Quarantine != nil:
		way := "put the host right, then remove spec.quarantine"
		switch {
		case host.Spec.Quarantine.InstanceID != "":
			way = "it is cleaned, and free, once it answers again"
		case host.Spec.UncleanInstanceID != "":
			way += "; it is cleaned after that, and then free"
		}
		since := ""
		if !host.Spec.Quarantine.Since.IsZero() { // A person may leave it out.
			since = " since " + host.Spec.Quarantine.Since.UTC().Format(time.RFC3339)
		}
		return no(infrav1.QuarantinedReason, fmt.Sprintf("in quarantine%s: %s; %s", since, host.Spec.Quarantine.Reason, way))
	case host.Spec.Claim != nil:
		return no(infrav1.ClaimedReason, "claimed by IDCMachine "+host.Spec.Claim.Name)
	case !host.DeletionTimestamp.IsZero():
		return no(infrav1.DeletingReason, "the host is being deleted")
	}
	for _, cause := range []string{infrav1.ReachableCondition, infrav1.HealthyCondition} {
		if found := conditions.Get(host, cause); found == nil || found.Status != metav1.ConditionTrue {
			return no(infrav1.NotHealthyReason, "see condition "+cause)
		}
	}
	return condition(name, metav1.ConditionTrue, infrav1.FreeReason, "")
}

// claimLost says how to free a host whose machine is gone. No clean-up was begun: with the command in the message the
// controller cleans the host up.
func claimLost(host *infrav1.IDCHost) string {
	lost := fmt.Sprintf("IDCMachine %s (instance %s), which claimed the host, is gone without giving it back; when clusterctl moves it here, wait for it; else ",
		host.Spec.Claim.Name, host.Spec.Claim.InstanceID)
	if !host.DeletionTimestamp.IsZero() {
		return lost + "clean the host by hand, because this IDCHost is being deleted, then remove the finalizer " + infrav1.IDCHostFinalizer
	}
	return lost + fmt.Sprintf("have it cleaned: kubectl patch idchost %s --namespace %s --type=merge -p "+
		`'{"metadata":{"finalizers":null},"spec":{"claim":null,"quarantine":{"reason":"its machine is gone","instanceID":%q}}}'`,
		host.Name, host.Namespace, host.Spec.Claim.InstanceID)
}

// setFacts writes into status what the probe found out. Memory is rounded, so that an update of the kernel does not change
// it.
func setFacts(host *infrav1.IDCHost, facts *probe.Facts) {
	host.Status.System = infrav1.SystemInfo{
		Architecture: facts.Architecture, KernelVersion: facts.KernelVersion, OSImage: facts.OSImage, Programs: facts.Programs,
	}
	const mebibyte = 1 << 20
	host.Status.Capacity = corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(facts.CPUs, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(facts.Memory/mebibyte*mebibyte, resource.BinarySI),
	}
	setAddresses(host, facts)
}

// maxAddresses is how many addresses the schema has room for.
const maxAddresses = 16

// setAddresses writes the addresses of a host, and keeps them while a machine has the host: otherwise a tenant could add
// addresses on its node and get certificates for them. After clusterctl move, which drops status, they are written once.
func setAddresses(host *infrav1.IDCHost, facts *probe.Facts) {
	if host.Spec.Claim != nil && len(host.Status.Addresses) > 0 {
		return
	}
	host.Status.Addresses = nil
	for _, address := range facts.Addresses[:min(len(facts.Addresses), maxAddresses)] {
		host.Status.Addresses = append(host.Status.Addresses, address.String())
	}
}
