// Package ownership observes whether a host is in use, and decides whose it is: nobody's, the machine's, or others'. Observe
// changes nothing on the host, and Judge is pure. A host of others must stay as it is.
package ownership

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

// Use says whose a host is.
type Use string

const (
	// Free means that no machine has the host and that it is not in use.
	Free Use = "Free"
	// Ours means that the host carries the machine that it is for.
	Ours Use = "Ours"
	// TakenOver means that the host is in use, and that a person allowed a machine to have it.
	TakenOver Use = "TakenOver"
	// OfOthers means that others use the host: it must not be changed.
	OfOthers Use = "OfOthers"
)

// Node is a node of the host cluster.
type Node struct {
	Name      string
	Addresses []netip.Addr
}

// Claimant describes the machine that wants a host, and the Nodes that the host may already be.
type Claimant struct {
	// InstanceID is the machine's; empty while no machine has claimed the host.
	InstanceID string
	// Bootstrapped is true once the host has become that machine. Then everything that runs on it is the machine's.
	Bootstrapped bool
	// Reached is the address at which the host is reached; not valid when that is a name.
	Reached netip.Addr
	// Nodes are the host cluster's, without those that one of our machines made of this host.
	Nodes []Node
	// TakeOver is the fact that a person allowed in spec.takeOver; empty for none.
	TakeOver string
}

// Verdict says whose a host is.
type Verdict struct {
	Use Use
	// Fact shows that the host is in use. It is empty for a free host, for one of our machines, and for a host
	// with a Record of another inventory.
	Fact string
	// Record is the host's, when it names a machine that this inventory does not know.
	Record *records.Record
}

// Judge decides whose a host is. Records come first. When the Record is the machine's, everything on the host is the
// machine's. A machine of another inventory cannot be taken over: its Record would be lost, and with it what a clean-up has
// to undo.
func Judge(usage *Usage, claimant *Claimant) Verdict {
	switch {
	case usage.Record != nil && (usage.Record.InstanceID == "" || usage.Record.InstanceID != claimant.InstanceID):
		return Verdict{Use: OfOthers, Record: usage.Record}
	case usage.Record != nil || claimant.Bootstrapped:
		return Verdict{Use: Ours}
	}
	fact := factOf(usage, claimant)
	switch fact {
	case "":
		return Verdict{Use: Free}
	case claimant.TakeOver:
		return Verdict{Use: TakenOver, Fact: fact}
	default:
		return Verdict{Use: OfOthers, Fact: fact}
	}
}

// Err is an *InUseError for a host that is in use.
func (v *Verdict) Err() error {
	if v.Use != OfOthers {
		return nil
	}
	return &InUseError{Record: v.Record, Fact: v.Fact}
}

// factOf says in one short sentence what shows that a host is in use; empty for nothing. A person repeats it in
// spec.takeOver: so it has no quotes, and is the same each time.
func factOf(usage *Usage, claimant *Claimant) string {
	var facts []string
	for _, unit := range usage.Kubelets {
		facts = append(facts, strings.TrimSuffix(unit, ".service")+" runs")
	}
	switch {
	case usage.Kubeconfig && usage.Server != "":
		facts = append(facts, onworker.Kubeconfig+" leads to "+usage.Server)
	case usage.Kubeconfig:
		facts = append(facts, onworker.Kubeconfig+" is there")
	}
	if usage.Software {
		facts = append(facts, softwareState+" is there")
	}
	if node, address, found := nodeAt(claimant.Nodes, append(slices.Clone(usage.Addresses), claimant.Reached)); found {
		facts = append(facts, fmt.Sprintf("the host cluster's Node %s has the address %s", node, address))
	}
	last := len(facts) - 1
	if last < 1 {
		return strings.Join(facts, "")
	}
	return strings.Join(facts[:last], ", ") + ", and " + facts[last]
}

// nodeAt returns the first Node, by name, that has one of the addresses, and the lowest of these addresses.
func nodeAt(nodes []Node, addresses []netip.Addr) (name string, address netip.Addr, found bool) {
	for i := range nodes {
		for _, a := range nodes[i].Addresses {
			a = a.Unmap()
			if !a.IsValid() || !slices.ContainsFunc(addresses, func(own netip.Addr) bool { return own.Unmap() == a }) {
				continue
			}
			if !found || cmp.Or(strings.Compare(nodes[i].Name, name), a.Compare(address)) < 0 {
				name, address, found = nodes[i].Name, a, true
			}
		}
	}
	return name, address, found
}

// InUseError says that a host is in use.
type InUseError struct {
	// Record is the host's, when it names another machine than the one that wants the host; nil otherwise.
	Record *records.Record
	// Fact shows in another way that the host is in use. spec.takeOver has to repeat it.
	Fact string
}

func (e *InUseError) Error() string {
	if e.Record == nil {
		return "the host is in use: " + e.Fact
	}
	return fmt.Sprintf("the host carries the IDCMachine %s/%s (instance %s), of which this inventory does not know; "+
		"find out which management cluster has it, delete that Machine there, or clean the host, put back what is in %s and remove %s on it",
		name(e.Record.Namespace), name(e.Record.Name), name(e.Record.InstanceID), records.OriginalsDir, records.Dir)
}

// name is a name from a host's Record, which anybody who is root there may have written.
func name(text string) string { return hosts.Line(text, validation.DNS1123SubdomainMaxLength) }
