package network

import (
	"context"
	"fmt"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
)

// removeChains removes a node's chains outside of its own tables, with the rules that lead to them. A network, such as flannel, may have brought
// an iptables of its own in its image, so that the host has none to remove them by.
func removeChains(ctx context.Context, h *hosts.Host) error {
	var tables nftTables
	var kept hosts.Kept
	changes, deletions := script{kept: &kept}, script{kept: &kept}
	// Chains may lead to each other, too: they are deleted when all are empty.
	err := nft(ctx, h, "chains", func(chain nftEntry) error {
		if err := tables.add(nftEntry{Family: chain.Family, Table: chain.Table}); err != nil {
			return err
		}
		if err := changes.add("flush chain " + chain.String() + "\n"); err != nil {
			return err
		}
		return deletions.add("delete chain " + chain.String() + "\n")
	})
	if len(tables) == 0 || err != nil {
		return err
	}
	for _, table := range tables {
		err := h.RunReading(ctx, func(listed *hosts.Output) error {
			return leading(listed, func(rule nftRule) error {
				return changes.add(fmt.Sprintf("delete rule %s %s %s handle %d\n", rule.Family, rule.Table, rule.Chain, rule.Handle))
			})
		}, "nft", "--json", "--terse", "list", "table", table.Family, table.Table) // A set of the host's own may have any number of members.
		if err != nil {
			return err
		}
	}
	changes.Write(deletions.Bytes())
	return h.ChangeBy(ctx, changes.Bytes(), "nft", "--file", "-")
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

// leading reads the rules of a listed table that lead from other chains to a node's.
func leading(listed *hosts.Output, each func(nftRule) error) error {
	return hosts.Elements(listed, "nftables", func(object nftObject) error {
		if rule := object.Rule; rule != nil && !isNodeChain(rule.Chain) && rule.leads() {
			return each(*rule)
		}
		return nil
	})
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
