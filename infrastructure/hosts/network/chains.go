package network

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
)

// removeChains removes a node's chains outside of its own tables, with the rules that lead to them. A network, such as flannel, may have brought
// an iptables of its own in its image, so that the host has none to remove them by.
func removeChains(ctx context.Context, h *hosts.Host) error {
	chains, err := nft(ctx, h, "chains")
	if len(chains) == 0 || err != nil {
		return err
	}
	script := &strings.Builder{}
	var read []nftEntry
	for _, chain := range chains {
		table := nftEntry{Family: chain.Family, Table: chain.Table}
		if slices.Contains(read, table) {
			continue
		}
		read = append(read, table)
		listed, err := h.RunLong(ctx, "nft", "--json", "list", "table", table.Family, table.Table)
		if err != nil {
			return err
		}
		rules, err := leading(listed)
		if err != nil {
			return fmt.Errorf("read the nftables table %s of the host: %w", hosts.Line(table.Family+" "+table.Table, hosts.MaxLine), err)
		}
		for _, rule := range rules {
			fmt.Fprintf(script, "delete rule %s %s %s handle %d\n", rule.Family, rule.Table, rule.Chain, rule.Handle)
		}
	}
	// Chains may lead to each other, too.
	for _, verb := range []string{"flush", "delete"} {
		for _, chain := range chains {
			fmt.Fprintf(script, "%s chain %s %s %s\n", verb, chain.Family, chain.Table, chain.Name)
		}
	}
	return h.ChangeBy(ctx, []byte(script.String()), "nft", "--file", "-")
}

// nftRule is a rule (libnftables-json(5)), as far as it leads to a chain.
type nftRule struct {
	Family string `json:"family"`
	Table  string `json:"table"`
	Chain  string `json:"chain"`
	Handle int64  `json:"handle"`
	Expr   []struct {
		Jump *nftTarget `json:"jump"`
		Goto *nftTarget `json:"goto"`
	} `json:"expr"`
}

type nftTarget struct {
	Target string `json:"target"`
}

// leading are the rules of a listed table that lead from other chains to a node's.
func leading(listed []byte) ([]nftRule, error) {
	answer := struct {
		All []struct {
			Rule *nftRule `json:"rule"`
		} `json:"nftables"`
	}{}
	if err := json.Unmarshal(listed, &answer); err != nil {
		return nil, err
	}
	var found []nftRule
	for _, entry := range answer.All {
		if entry.Rule != nil && !isNodeChain(entry.Rule.Chain) && entry.Rule.leads() {
			found = append(found, *entry.Rule)
		}
	}
	return found, nil
}

// leads reports whether a rule leads to a node's chain.
func (r *nftRule) leads() bool {
	for _, expression := range r.Expr {
		for _, to := range []*nftTarget{expression.Jump, expression.Goto} {
			if to != nil && isNodeChain(to.Target) {
				return true
			}
		}
	}
	return false
}
