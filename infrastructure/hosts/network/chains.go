package network

import (
	"bytes"
	"context"
	"fmt"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
)

// removeChains removes a node's chains outside of its own tables, with the rules that lead to them. A network, such as flannel, may have brought
// an iptables of its own in its image, so that the host has none to remove them by.
func removeChains(ctx context.Context, h *hosts.Host) error {
	var tables nftTables
	var script, deletions bytes.Buffer
	var kept hosts.Kept
	// Chains may lead to each other, too: they are deleted when all are empty.
	err := nft(ctx, h, "chains", func(chain nftEntry) error {
		if err := tables.add(nftEntry{Family: chain.Family, Table: chain.Table}); err != nil {
			return err
		}
		flush, deletion := "flush chain "+chain.String()+"\n", "delete chain "+chain.String()+"\n"
		script.WriteString(flush)
		deletions.WriteString(deletion)
		return kept.Add(flush, deletion)
	})
	if len(tables) == 0 || err != nil {
		return err
	}
	for _, table := range tables {
		err := h.RunReading(ctx, func(listed *hosts.Output) error {
			return leading(listed, func(rule nftRule) error {
				deletion := fmt.Sprintf("delete rule %s %s %s handle %d\n", rule.Family, rule.Table, rule.Chain, rule.Handle)
				script.WriteString(deletion)
				return kept.Add(deletion)
			})
		}, "nft", "--json", "list", "table", table.Family, table.Table)
		if err != nil {
			return err
		}
	}
	script.Write(deletions.Bytes())
	return h.ChangeBy(ctx, script.Bytes(), "nft", "--file", "-")
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
