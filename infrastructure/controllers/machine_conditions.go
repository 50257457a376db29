package controllers

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/claims"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/bootstrap"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
)

// ownedMachineConditions are the conditions that the controller sets.
var ownedMachineConditions = []string{
	clusterv1.PausedCondition, infrav1.ReadyCondition, infrav1.HostClaimedCondition, infrav1.BootstrappedCondition, infrav1.DeletingCondition,
}

// machineScope is what one reconcile of one machine knows.
type machineScope struct {
	machine *infrav1.IDCMachine
	owner   *clusterv1.Machine
	cluster *clusterv1.Cluster
	// waiting is what the machine waits for before it gets a host; nil for nothing.
	waiting  *waiting
	claim    claims.Outcome
	progress bootstrapSeen
}

// waiting is what a machine waits for.
type waiting struct {
	reason, message string
}

// updateMachineStatus computes the status from the scope.
func updateMachineStatus(s *machineScope) {
	status := &s.machine.Status
	if host := s.claim.Host; host != nil {
		status.FailureDomain = host.Spec.FailureDomain
		status.Addresses = addresses(host, s.machine)
	}
	if s.progress.done() {
		status.Initialization.Provisioned = ptr.To(true)
	}
	conditions.Set(s.machine, hostClaimed(s))
	conditions.Set(s.machine, bootstrapped(s))
	conditions.Set(s.machine, condition(infrav1.DeletingCondition, metav1.ConditionFalse, infrav1.NotDeletingReason, ""))
	conditions.Set(s.machine, machineReady(s.machine))
}

// addresses are those of the host, and the name that cloud-init gives it. spec.address alone is not enough: it may be a name,
// or exist behind a bastion only, and kubelet serves at an address that the host itself has.
func addresses(host *infrav1.IDCHost, machine *infrav1.IDCMachine) []clusterv1.MachineAddress {
	kind := clusterv1.MachineInternalDNS
	reached, err := netip.ParseAddr(host.Spec.Address)
	if err == nil {
		kind = clusterv1.MachineInternalIP
	}
	all := []clusterv1.MachineAddress{{Type: clusterv1.MachineHostName, Address: machine.Name}, {Type: kind, Address: host.Spec.Address}}
	for _, own := range host.Status.Addresses {
		if address, err := netip.ParseAddr(own); err == nil && address != reached {
			all = append(all, clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: own})
		}
	}
	return all
}

func hostClaimed(s *machineScope) metav1.Condition {
	const name = infrav1.HostClaimedCondition
	switch {
	case s.waiting != nil:
		return condition(name, metav1.ConditionFalse, s.waiting.reason, s.waiting.message)
	case s.claim.Host == nil:
		return condition(name, metav1.ConditionFalse, s.claim.Reason, s.claim.Problem)
	default:
		return condition(name, metav1.ConditionTrue, infrav1.HostClaimedReason, "")
	}
}

func bootstrapped(s *machineScope) metav1.Condition {
	const name = infrav1.BootstrappedCondition
	no := func(reason, message string) metav1.Condition {
		return condition(name, metav1.ConditionFalse, reason, message)
	}
	p := s.progress
	switch {
	case ptr.Deref(s.machine.Status.Initialization.Provisioned, false):
		return condition(name, metav1.ConditionTrue, infrav1.BootstrappedReason, s.avoided())
	case s.claim.Host == nil:
		return no(infrav1.BootstrappingReason, "see condition "+infrav1.HostClaimedCondition)
	case p.data != "":
		return no(infrav1.BootstrapDataInvalidReason, p.data)
	case !p.known:
		return no(infrav1.BootstrappingReason, fmt.Sprintf("IDCHost %s is being prepared", s.claim.Host.Name))
	case p.refused() != nil:
		return no(infrav1.InUseReason, inUse(s.claim.Host, p.refused(), leaveMachine))
	case p.err != nil:
		return no(workReason(p.err), fmt.Sprintf("work on IDCHost %s failed, and is tried again: %v", s.claim.Host.Name, p.err))
	case p.progress.State == bootstrap.Failed && p.progress.Software != nil:
		return no(softwareReason(p.progress.Software), softwareFailed(s.claim.Host.Name, p.progress.Software))
	case p.progress.State == bootstrap.Failed:
		message := fmt.Sprintf("on IDCHost %s %s. Put the cause right, then delete the Machine", s.claim.Host.Name, p.progress.Detail)
		if p.progress.Output != "" {
			message += ". The end of its output:\n" + p.progress.Output
		}
		return no(infrav1.BootstrapFailedReason, message)
	default:
		return no(infrav1.BootstrappingReason, fmt.Sprintf("on IDCHost %s %s", s.claim.Host.Name, p.progress.Detail))
	}
}

// avoided says which sources of software the host avoided. The bootstrap reports it once; the condition keeps it.
func (s *machineScope) avoided() string {
	if s.progress.done() {
		return sourcesAvoided(s.progress.progress.Avoided)
	}
	if was := conditions.Get(s.machine, infrav1.BootstrappedCondition); was != nil && was.Status == metav1.ConditionTrue {
		return was.Message
	}
	return ""
}

// sourcesAvoided names the sources that failed while another one had the file; empty for none.
func sourcesAvoided(sources []string) string {
	if len(sources) == 0 {
		return ""
	}
	return "the software is installed, and other sources gave what these did not: " + strings.Join(sources, "; ") + "; see to them before more machines need them"
}

// workReason is the reason of an error of work on a host. It is the one that a condition of the IDCHost would have.
func workReason(err error) string {
	var unreached *ssh.Error
	var failed *bootstrap.ProblemError
	switch {
	case errors.As(err, &unreached):
		return reachReason(unreached)
	case errors.As(err, &failed):
		return healthReasons[failed.Problem.Reason]
	default:
		return infrav1.BootstrappingReason
	}
}

// softwareReasons maps what kok-software reports to reasons of BootstrappedCondition.
var softwareReasons = map[software.Reason]string{
	software.NoVariant: infrav1.SoftwareNotForHostReason, software.NoSource: infrav1.SoftwareNotAvailableReason,
	software.NoRoom: infrav1.NoRoomForSoftwareReason, software.NotWorking: infrav1.SoftwareNotWorkingReason,
	software.NotInstalled: infrav1.SoftwareNotInstalledReason,
}

// softwareReason is the reason of a problem that a host reports. A host may report anything.
func softwareReason(result *software.Result) string {
	return cmp.Or(softwareReasons[result.Reason], infrav1.BootstrapFailedReason)
}

// softwareFailed is the message about a problem that kok-software reported. Its text has the way out.
func softwareFailed(host string, result *software.Result) string {
	what := ""
	if result.Component != "" {
		what = " " + result.Component
	}
	why := cmp.Or(strings.TrimRight(result.Message, ". "), "look at the output of journalctl -u kok-bootstrap on it")
	return fmt.Sprintf("on IDCHost %s the software%s was not installed: %s; put that right, then delete the Machine", host, what, why)
}

// machineReady sums up: it has reason and message of the first condition that is not true.
func machineReady(machine *infrav1.IDCMachine) metav1.Condition {
	for _, cause := range []string{infrav1.HostClaimedCondition, infrav1.BootstrappedCondition} {
		if found := conditions.Get(machine, cause); found != nil && found.Status != metav1.ConditionTrue {
			return condition(infrav1.ReadyCondition, metav1.ConditionFalse, found.Reason, found.Message)
		}
	}
	// Cluster API shows this condition for the Machine.
	return condition(infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason, conditions.GetMessage(machine, infrav1.BootstrappedCondition))
}
