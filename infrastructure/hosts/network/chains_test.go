package network

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
)

// listed is what nft lists of a table in which flannel has a chain, with rules of the host's own.
const listed = `{"nftables": [{"metainfo": {"version": "1.0.6", "json_schema_version": 1}}, {"table": {"family": "ip", "name": "nat", "handle": 1}},
{"chain": {"family": "ip", "table": "nat", "name": "FLANNEL-POSTRTG", "handle": 1}},
{"chain": {"family": "ip", "table": "nat", "name": "POSTROUTING", "handle": 2, "type": "nat", "hook": "postrouting", "prio": 100, "policy": "accept"}},
{"rule": {"family": "ip", "table": "nat", "chain": "FLANNEL-POSTRTG", "handle": 3, "expr": [{"match": {"op": "==", "left": {"&": [{"meta": {"key": "mark"}}, 16384]}, "right": 16384}}, {"counter": {"packets": 0, "bytes": 0}}, {"return": null}]}},
{"rule": {"family": "ip", "table": "nat", "chain": "FLANNEL-POSTRTG", "handle": 4, "expr": [{"jump": {"target": "FLANNEL-OTHER"}}]}},
{"rule": {"family": "ip", "table": "nat", "chain": "POSTROUTING", "handle": 5, "comment": "flanneld masq", "expr": [{"xt": null}, {"counter": {"packets": 0, "bytes": 0}}, {"jump": {"target": "FLANNEL-POSTRTG"}}]}},
{"rule": {"family": "ip", "table": "nat", "chain": "POSTROUTING", "handle": 6, "expr": [{"counter": {"packets": 0, "bytes": 0}}, {"return": null}]}},
{"rule": {"family": "ip", "table": "nat", "chain": "POSTROUTING", "handle": 7, "expr": [{"jump": {"target": "MINE"}}]}},
{"rule": {"family": "ip", "table": "nat", "chain": "MINE", "handle": 8, "expr": [{"goto": {"target": "KUBE-POSTROUTING"}}]}}]}`

func printed(text string) *hosts.Output { return &hosts.Output{Reader: strings.NewReader(text)} }

func TestRulesThatLeadToChainsOfANode(t *testing.T) {
	var got []string
	note := func(rule nftRule) error {
		got = append(got, fmt.Sprintf("%s %s %s %d", rule.Family, rule.Table, rule.Chain, rule.Handle))
		return nil
	}
	if err := leading(printed(listed), note); err != nil {
		t.Fatal(err)
	}
	if want := []string{"ip nat POSTROUTING 5", "ip nat MINE 8"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, nonsense := range []string{`{"nftables": 1}`, `{"nftables": [`, `{"nftables": [{"rule": 1}]}`, `[]`, ``} {
		if err := leading(printed(nonsense), note); err == nil {
			t.Errorf("nonsense is read: %s", nonsense)
		}
	}
}
