package claims

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

// choice has the hosts that a machine may have, best first, and why it may not have the others.
type choice struct {
	hosts    []*infrav1.IDCHost
	rejected []rejection
	// inUse is the message of a rejected host that is in use; empty when no host is.
	inUse string
}

type rejection struct {
	host *infrav1.IDCHost
	// why is the same text for all hosts with the same fault.
	why string
}

// choose decides which hosts a machine may have. Machines that choose at the same time prefer different hosts, so that
// they rarely race for one.
func choose(machine *infrav1.IDCMachine, failureDomain string, all []infrav1.IDCHost) (choice, error) {
	selector := labels.Everything()
	if machine.Spec.HostSelector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(machine.Spec.HostSelector); err != nil {
			return choice{}, fmt.Errorf("read spec.hostSelector: %w", err)
		}
	}
	c := choice{}
	for i := range all {
		host := &all[i]
		if why := unfit(host, machine, selector, failureDomain); why != "" {
			detail := ""
			if why == InUseByOthers {
				detail = conditions.GetMessage(host, infrav1.HealthyCondition)
			}
			c.reject(host, why, detail)
			continue
		}
		c.hosts = append(c.hosts, host)
	}
	slices.SortFunc(c.hosts, func(a, b *infrav1.IDCHost) int {
		return cmp.Or(
			cmp.Compare(b2i(ClaimedBy(b, machine)), b2i(ClaimedBy(a, machine))),
			cmp.Compare(rank(machine, a), rank(machine, b)),
			strings.Compare(a.Name, b.Name),
		)
	})
	return c, nil
}

// reject notes why a host does not fit, with its message if it is in use.
func (c *choice) reject(host *infrav1.IDCHost, why, inUse string) {
	c.rejected = append(c.rejected, rejection{host, why})
	if c.inUse == "" {
		c.inUse = inUse
	}
}

func b2i(is bool) int {
	if is {
		return 1
	}
	return 0
}

// rank orders the hosts for one machine, in another order for each machine (rendezvous hashing).
func rank(machine *infrav1.IDCMachine, host *infrav1.IDCHost) uint64 {
	sum := sha256.Sum256([]byte(machine.Spec.InstanceID + "/" + host.Name))
	return binary.BigEndian.Uint64(sum[:])
}

// Why a host is rejected that no machine has claimed.
const (
	InUseByOthers = "in use by others, see their conditions"
	NotHealthy    = "not healthy, see their conditions"
)

// unfit says why a machine cannot have a host; empty when it can.
func unfit(host *infrav1.IDCHost, machine *infrav1.IDCMachine, selector labels.Selector, failureDomain string) string {
	switch {
	case ClaimedBy(host, machine) && host.DeletionTimestamp.IsZero():
		return ""
	case !selector.Matches(labels.Set(host.Labels)):
		return "not selected by hostSelector " + selector.String()
	case failureDomain != "" && host.Spec.FailureDomain != failureDomain:
		return fmt.Sprintf("not in failure domain %q", failureDomain)
	case host.Spec.Claim != nil:
		return "claimed by others"
	case host.Spec.Quarantine != nil:
		return "in quarantine"
	case host.Spec.UncleanInstanceID != "":
		return "to be cleaned first"
	case !host.DeletionTimestamp.IsZero():
		return "being deleted"
	case annotations.HasPaused(host):
		return "paused by a person"
	}
	if name, lacks := lacking(machine.Spec.MinCapacity, capacity(host)); lacks {
		return "too small, or of unknown size, by minCapacity." + name
	}
	switch {
	case conditions.GetReason(host, infrav1.HealthyCondition) == infrav1.InUseReason:
		return InUseByOthers
	case !conditions.IsTrue(host, infrav1.AvailableCondition):
		return NotHealthy
	default:
		return ""
	}
}

// capacity is what a host has: by its spec or, where spec has nothing, by the last probe.
func capacity(host *infrav1.IDCHost) corev1.ResourceList {
	all := corev1.ResourceList{}
	for _, source := range []corev1.ResourceList{host.Status.Capacity, host.Spec.Capacity} {
		for name, quantity := range source {
			all[name] = quantity
		}
	}
	return all
}

// lacking names the first resource of which the host has less than required.
func lacking(least, has corev1.ResourceList) (string, bool) {
	names := make([]string, 0, len(least))
	for name := range least {
		names = append(names, string(name))
	}
	slices.Sort(names)
	for _, name := range names {
		quantity, want := has[corev1.ResourceName(name)], least[corev1.ResourceName(name)]
		if quantity.Cmp(want) < 0 {
			return name, true
		}
	}
	return "", false
}

// message says why there is no host, and the way out.
func (c *choice) message(namespace string) string {
	if len(c.rejected) == 0 {
		return fmt.Sprintf("there is no IDCHost in namespace %s; create one for each host", namespace)
	}
	counts := map[string]int{}
	var order []string
	for _, rejected := range c.rejected {
		if counts[rejected.why] == 0 {
			order = append(order, rejected.why)
		}
		counts[rejected.why]++
	}
	slices.Sort(order)
	for i, why := range order {
		order[i] = fmt.Sprintf("%d %s", counts[why], why)
	}
	text := fmt.Sprintf("none of the %d IDCHosts in namespace %s can be had: %s; add hosts, or put these right",
		len(c.rejected), namespace, strings.Join(order, ", "))
	if c.inUse != "" {
		text += ". " + c.inUse
	}
	return text
}

// ClaimedBy reports whether a host is reserved for exactly this machine.
func ClaimedBy(host *infrav1.IDCHost, machine *infrav1.IDCMachine) bool {
	claim := host.Spec.Claim
	return claim != nil && machine.Spec.InstanceID != "" && claim.Name == machine.Name && claim.InstanceID == machine.Spec.InstanceID
}
