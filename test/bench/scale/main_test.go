package main

import (
	"slices"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/shape"
)

func TestTenantsHavePortPoolsWhereBlocksDoNotDo(t *testing.T) {
	for name, test := range map[string]struct {
		tenants, perPool int
		pools            []string
		last             string
		refused          bool
	}{
		"as many as blocks":           {tenants: blocks, pools: []string{""}},
		"one more":                    {tenants: blocks + 1, pools: []string{"pool-0", "pool-1"}, last: "pool-1"},
		"full pools":                  {tenants: 3000, pools: []string{"pool-0", "pool-1", "pool-2"}, last: "pool-2"},
		"small pools":                 {tenants: 6, perPool: 2, pools: []string{"pool-0", "pool-1", "pool-2"}, last: "pool-2"},
		"one pool":                    {tenants: 6, perPool: 100, pools: []string{"pool-0"}, last: "pool-0"},
		"more in a pool than blocks":  {tenants: 6, perPool: blocks + 1, refused: true},
		"less than nobody in a pool":  {tenants: 6, perPool: -1, refused: true},
		"nobody at all, and no pools": {refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			o := &options{tenants: test.tenants, first: 1, perPool: test.perPool, shape: shape.HighlyAvailable.Name}
			if err := o.check(); (err != nil) != test.refused || test.refused {
				if !test.refused {
					t.Error(err)
				}
				return
			}
			if pools := o.pools(); !slices.Equal(pools, test.pools) || o.poolOf(test.tenants-1) != test.last {
				t.Errorf("there are the pools %q, and the last tenant is in %q", pools, o.poolOf(test.tenants-1))
			}
		})
	}
}

func TestBlocksAreThoseOfTheWidestRange(t *testing.T) {
	span, err := ports.ParseRange(portRange)
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for first := (span.First + 19) / 20 * 20; span.Contains(ports.Block(first)); first += 20 {
		count++
	}
	if count != blocks {
		t.Errorf("there are %d, not %d", count, blocks)
	}
}
