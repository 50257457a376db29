package hosts

import (
	"context"
	"slices"
	"strings"
)

// chainPrefixes are how kubelet, kube-proxy, CNI plugins and flannel name their chains.
var chainPrefixes = []string{"KUBE-", "CNI-", "FLANNEL-"}

// flannelTables are flannel's in nftables mode.
var flannelTables = map[string]string{"ip": "flannel-ipv4", "ip6": "flannel-ipv6"}

func isNodeChain(name string) bool {
	return slices.ContainsFunc(chainPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// removal makes of what iptables-save prints the input of iptables-restore --noflush that removes a
// node's chains, and the rules of others that jump to them, and nothing else; empty for nothing to do.
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

// removeRules takes a node's packet filter rules away, those of the nftables modes of kube-proxy and flannel too.
func (h *Host) removeRules(ctx context.Context, programs []string) error {
	for _, family := range []string{"iptables", "ip6tables"} {
		if !slices.Contains(programs, family+"-save") {
			continue
		}
		saved, err := h.run(ctx, family+"-save")
		if err != nil {
			return err
		}
		if input := removal(string(saved)); input != "" {
			if _, err := h.feed(ctx, []byte(input), family+"-restore", "--noflush"); err != nil {
				return err
			}
		}
	}
	if slices.Contains(programs, "nft") {
		for _, family := range []string{"ip", "ip6"} {
			for _, table := range []string{"kube-proxy", flannelTables[family]} {
				if _, err := h.try(ctx, "nft", "delete", "table", family, table); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
