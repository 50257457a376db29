// Package verdict says of a host of the inventory whether it can be used, from the conditions that the controller wrote.
package verdict

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

// States of hosts.
const (
	Free     = "free"
	Claimed  = "claimed"
	Unusable = "unusable"
	Unknown  = "unknown"
)

// Verdict is what a host's conditions come to.
type Verdict struct {
	// Name and Address are the host's, Machine is the IDCMachine that has it.
	Name, Address, Machine string
	// State is one of the above, Reason that of the condition which decides, and Since when that became so.
	State, Reason string
	Since         time.Time
	// Message says what is wrong, WayOut what a person does about it where the message does not say it.
	Message, WayOut string
}

// Usable reports whether a machine can have the host, or has it and can go on.
func (v Verdict) Usable() bool { return v.State == Free || v.State == Claimed }

// Of says of a host whether it can be used. A host that a machine has is as good as its last probe.
func Of(host *infrav1.IDCHost) Verdict {
	v := Verdict{Name: host.Name, Address: host.Spec.Address, State: Unknown, Reason: infrav1.NotAskedReason}
	if host.Spec.Claim != nil {
		v.Machine = host.Spec.Claim.Name
	}
	available := conditions.Get(host, infrav1.AvailableCondition)
	if available == nil || host.Status.ObservedGeneration < host.Generation {
		v.Message = Missing(host)
		return v
	}
	cause := available
	switch available.Reason {
	case infrav1.FreeReason:
		v.State = Free
	case infrav1.ClaimedReason, infrav1.NotHealthyReason:
		v.State = Claimed
		if found := notTrue(host); found != nil {
			v.State, cause = Unusable, found
		} else if available.Reason == infrav1.NotHealthyReason {
			v.State = Unusable
		}
	default:
		v.State = Unusable
	}
	if cause.Reason == infrav1.NotAskedReason {
		v.State = Unknown
	}
	v.Reason, v.Since, v.Message = cause.Reason, cause.LastTransitionTime.Time, cause.Message
	v.WayOut = wayOut(host, cause.Reason)
	return v
}

// notTrue is the first condition that keeps a host from being well.
func notTrue(host *infrav1.IDCHost) *metav1.Condition {
	for _, name := range []string{infrav1.ReachableCondition, infrav1.HealthyCondition} {
		if found := conditions.Get(host, name); found != nil && found.Status != metav1.ConditionTrue {
			return found
		}
	}
	return nil
}

// wayOut is the command that puts a host right where the way out is one in the API. Other messages say it themselves.
func wayOut(host *infrav1.IDCHost, reason string) string {
	object := fmt.Sprintf("idchost %s --namespace %s", host.Name, host.Namespace)
	switch reason {
	case infrav1.QuarantinedReason:
		if host.Spec.Quarantine != nil && host.Spec.Quarantine.InstanceID != "" {
			return "" // The controller ends it.
		}
		return "once it is put right: kubectl patch " + object + ` --type=merge -p '{"spec":{"quarantine":null}}'`
	case infrav1.HostKeyMismatchReason:
		return "if the host was installed anew: kubectl edit " + object + ", and put its new keys into spec.hostKeys"
	case infrav1.CredentialsInvalidReason:
		return fmt.Sprintf("put the private key into %s of the Secret: kubectl edit secret %s --namespace %s", infrav1.SSHPrivateKey, host.Spec.KeySecretRef.Name, host.Namespace)
	case infrav1.InUseReason:
		return "if it is not meant to be a machine: kubectl delete " + object + "; if it may be wiped, set spec.takeOver to the fact above: kubectl edit " + object
	default:
		return ""
	}
}

// Missing is what keeps a host from being used; empty for nothing, and for a host that a machine has and can go on with.
func Missing(host *infrav1.IDCHost) string {
	if paused := conditions.Get(host, clusterv1.PausedCondition); paused != nil && paused.Status == metav1.ConditionTrue {
		return "the host is paused: " + paused.Message
	}
	if conditions.Get(host, infrav1.ReachableCondition) == nil || host.Status.ObservedGeneration < host.Generation {
		return "the controller did not look at it yet; if that stays so, see whether it runs: kubectl get pods --all-namespaces --selector cluster.x-k8s.io/provider=infrastructure-idc"
	}
	var left []string
	for _, name := range []string{infrav1.ReachableCondition, infrav1.HealthyCondition, infrav1.AvailableCondition} {
		found := conditions.Get(host, name)
		switch {
		case found == nil:
			left = append(left, name+" is not known yet")
		case found.Status == metav1.ConditionTrue || slices.Contains(notMissing, found.Reason):
		default:
			left = append(left, fmt.Sprintf("%s: %s: %s", name, found.Reason, found.Message))
			if way := wayOut(host, found.Reason); way != "" {
				left = append(left, way)
			}
		}
	}
	return strings.Join(left, "; ")
}

// notMissing are reasons that tell a person nothing to do: another condition says why, or a machine has the host.
var notMissing = []string{infrav1.NotReachableReason, infrav1.NotHealthyReason, infrav1.ClaimedReason}
