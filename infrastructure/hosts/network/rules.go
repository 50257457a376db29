package network

import (
	"context"
	"encoding/json"
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
func removal(saved string) string {
	result := &strings.Builder{}
	table := ""
	var jumps, chains []string
	for line := range strings.Lines(saved) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "*"):
			table, jumps, chains = line, nil, nil
		case strings.HasPrefix(line, ":"):
			if name, _, _ := strings.Cut(line[1:], " "); isNodeChain(name) {
				chains = append(chains, name)
			}
		case strings.HasPrefix(line, "-A "):
			chain, rule, _ := strings.Cut(line[len("-A "):], " ")
			if !isNodeChain(chain) && jumpsToNode(rule) {
				jumps = append(jumps, "-D "+chain+" "+rule)
			}
		case line == "COMMIT" && len(jumps)+len(chains) > 0:
			lines := append([]string{table}, jumps...)
			for _, chain := range chains {
				lines = append(lines, "-F "+chain)
			}
			for _, chain := range chains {
				lines = append(lines, "-X "+chain)
			}
			result.WriteString(strings.Join(append(lines, "COMMIT"), "\n") + "\n")
		}
	}
	return result.String()
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

// RemoveRules removes a node's packet filter rules, also those of nftables modes.
func RemoveRules(ctx context.Context, h *hosts.Host, programs []string) error {
	for _, family := range iptables(programs) {
		saved, err := h.RunLong(ctx, family+"-save")
		if err != nil {
			return err
		}
		if input := removal(string(saved)); input != "" {
			if err := h.ChangeBy(ctx, []byte(input), family+"-restore", "--noflush"); err != nil {
				return err
			}
		}
	}
	tables, err := nft(ctx, h, "tables")
	if err != nil {
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

// nft lists a node's "tables", or its "chains" outside of them, which programs named iptables-nft make.
func nft(ctx context.Context, h *hosts.Host, kind string) ([]nftEntry, error) {
	output, err := h.RunLong(ctx, "nft", "--json", "list", kind)
	if err != nil {
		return nil, err
	}
	answer := struct {
		All []struct {
			Table *nftEntry `json:"table"`
			Chain *nftEntry `json:"chain"`
		} `json:"nftables"`
	}{}
	if err := json.Unmarshal(output, &answer); err != nil {
		return nil, fmt.Errorf("read the nftables %s of the host: %w", kind, err)
	}
	var found []nftEntry
	for _, entry := range answer.All {
		if entry.Table != nil && slices.Contains(nodeTables, entry.Table.Name) {
			found = append(found, *entry.Table)
		}
		if entry.Chain != nil && isNodeChain(entry.Chain.Name) && !slices.Contains(nodeTables, entry.Chain.Table) {
			found = append(found, *entry.Chain)
		}
	}
	return found, nil
}

// rulesLeft names a node's packet filter rules that still exist.
func rulesLeft(ctx context.Context, h *hosts.Host, programs []string) ([]string, error) {
	var left []string
	for _, kind := range []string{"tables", "chains"} {
		entries, err := nft(ctx, h, kind)
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			left = append(left, hosts.Tidy(strings.Join(strings.Fields("nftables "+strings.TrimSuffix(kind, "s")+" "+entry.Family+" "+entry.Table+" "+entry.Name), " ")))
		}
	}
	for _, family := range iptables(programs) {
		saved, err := h.RunLong(ctx, family+"-save")
		if err != nil {
			return nil, err
		}
		if removal(string(saved)) != "" {
			left = append(left, "a node's rules in what "+family+"-save prints")
		}
	}
	return left, nil
}
