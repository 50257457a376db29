package network

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
)

// chainPrefixes are prefixes of the chains of kubelet, kube-proxy, CNI plugins, flannel, Calico and Cilium.
var chainPrefixes = []string{"KUBE-", "CNI-", "FLANNEL-", "cali-", "CILIUM_", "OLD_CILIUM_"}

// nodeTables are the tables of kube-proxy, flannel and Calico in their nftables modes.
var nodeTables = []string{"kube-proxy", "flannel-ipv4", "flannel-ipv6", "calico"}

func isNodeChain(name string) bool {
	return slices.ContainsFunc(chainPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// removal turns the output of iptables-save into input of iptables-restore --noflush. That removes a node's chains and the
// rules that jump to them, and nothing else. It is empty when there is nothing to remove.
func removal(saved *hosts.Output) ([]byte, error) {
	var kept hosts.Kept
	input, deletions := script{kept: &kept}, script{kept: &kept}
	table, begun := "", false
	add := func(to *script, line string) error {
		if !begun {
			begun, line = true, table+"\n"+line
		}
		return to.add(line)
	}
	err := saved.Lines(func(line string) error {
		switch {
		case strings.HasPrefix(line, "*"):
			table, begun = line, false
			deletions.Reset()
		case strings.HasPrefix(line, ":"):
			if name, _, _ := strings.Cut(line[1:], " "); isNodeChain(name) {
				if err := add(&input, "-F "+name+"\n"); err != nil {
					return err
				}
				return add(&deletions, "-X "+name+"\n")
			}
		case strings.HasPrefix(line, "-A "):
			if chain, rule, _ := strings.Cut(line[len("-A "):], " "); !isNodeChain(chain) && jumpsToNode(rule) {
				return add(&input, "-D "+chain+" "+rule+"\n")
			}
		case line == "COMMIT" && begun:
			begun = false
			input.Write(deletions.Bytes())
			input.WriteString("COMMIT\n")
		}
		return nil
	})
	return input.Bytes(), err
}

// jumpsToNode reports whether a rule ends in a node's chain.
func jumpsToNode(rule string) bool {
	fields := strings.Fields(rule)
	for i := 0; i+1 < len(fields); i++ {
		if (fields[i] == "-j" || fields[i] == "-g") && isNodeChain(fields[i+1]) {
			return true
		}
	}
	return false
}

// iptables are the programs whose rules are cleaned, one for each address family.
func iptables(programs []string) []string {
	return slices.DeleteFunc([]string{"iptables", "ip6tables"}, func(family string) bool { return !slices.Contains(programs, family+"-save") })
}

// readRemoval is removal of what a family's program saves.
func readRemoval(ctx context.Context, h *hosts.Host, family string) (input []byte, err error) {
	err = h.RunReading(ctx, func(saved *hosts.Output) error {
		input, err = removal(saved)
		return err
	}, family+"-save")
	return input, err
}

// RemoveRules removes a node's packet filter rules, also those of nftables modes.
func RemoveRules(ctx context.Context, h *hosts.Host, programs []string) error {
	for _, family := range iptables(programs) {
		input, err := readRemoval(ctx, h, family)
		if err != nil {
			return err
		}
		if len(input) > 0 {
			if err := h.ChangeBy(ctx, input, family+"-restore", "--noflush"); err != nil {
				return err
			}
		}
	}
	var tables nftTables
	if err := nft(ctx, h, "tables", tables.add); err != nil {
		return err
	}
	for _, table := range tables {
		if err := h.Change(ctx, "nft", "delete", "table", table.Family, table.Name); err != nil {
			return err
		}
	}
	return removeChains(ctx, h)
}

// nftEntry is a table, or a chain in one (libnftables-json(5)).
type nftEntry struct {
	Family string `json:"family"`
	Table  string `json:"table"`
	Name   string `json:"name"`
}

// String names an entry as nft does.
func (e nftEntry) String() string {
	return strings.Join(strings.Fields(e.Family+" "+e.Table+" "+e.Name), " ")
}

// nftTables are tables, each once.
type nftTables []nftEntry

// maxTables is more than programs named iptables-nft, kube-proxy and all networks together make.
const maxTables = 100

// families are those of nftables (nft(8)). A host may lie, and name others of any length.
var families = []string{"ip", "ip6", "inet", "arp", "bridge", "netdev"}

func (t *nftTables) add(table nftEntry) error {
	if !slices.Contains(families, table.Family) {
		return fmt.Errorf("nftables has no family %q", hosts.Line(table.Family, hosts.MaxLine))
	}
	if slices.Contains(*t, table) {
		return nil
	}
	if len(*t) == maxTables {
		return fmt.Errorf("more than %d tables have something of a node; restart the host, which ends it", maxTables)
	}
	*t = append(*t, table)
	return nil
}

// nftObject is an object that nft lists; all but one of its fields are nil.
type nftObject struct {
	Table *nftEntry `json:"table"`
	Chain *nftEntry `json:"chain"`
	Rule  *nftRule  `json:"rule"`
}

// nft reads a node's "tables", or its "chains" outside of them, which programs named iptables-nft make.
func nft(ctx context.Context, h *hosts.Host, kind string, each func(nftEntry) error) error {
	return h.RunReading(ctx, func(listed *hosts.Output) error {
		return hosts.Elements(listed, "nftables", func(object nftObject) error {
			switch {
			case object.Table != nil && slices.Contains(nodeTables, object.Table.Name):
				return each(*object.Table)
			case object.Chain != nil && isNodeChain(object.Chain.Name) && !slices.Contains(nodeTables, object.Chain.Table):
				return each(*object.Chain)
			}
			return nil
		})
	}, "nft", "--json", "list", kind)
}

// maxNamed is how many tables, chains or routes that are left are named: a message must stay short.
const maxNamed = 100

// rulesLeft names a node's packet filter rules that still exist.
func rulesLeft(ctx context.Context, h *hosts.Host, programs []string) ([]string, error) {
	var left []string
	for _, kind := range []string{"tables", "chains"} {
		var named []string
		err := nft(ctx, h, kind, func(entry nftEntry) error {
			if len(named) < maxNamed {
				named = append(named, hosts.Line("nftables "+strings.TrimSuffix(kind, "s")+" "+entry.String(), hosts.MaxLine))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		left = append(left, named...)
	}
	for _, family := range iptables(programs) {
		input, err := readRemoval(ctx, h, family)
		if err != nil {
			return nil, err
		}
		if len(input) > 0 {
			left = append(left, "a node's rules in what "+family+"-save prints")
		}
	}
	return left, nil
}
