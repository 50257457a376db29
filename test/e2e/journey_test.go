//go:build e2e

package e2e

import (
	. "github.com/onsi/ginkgo/v2"
)

// journey is the life of two tenants in the same mode on the same host nodes: one highly available, one with one of
// each. Later specs use what earlier ones made.
type journey struct {
	a, b *tenant
}

var _ = Describe("The journey of two tenants", Ordered, Label(gating), func() {
	j := &journey{
		a: newTenant("a", "v1.36.3", nil),
		b: newTenant("b", "v1.35.4", single()),
	}
	j.specs()
})

func (j *journey) specs() {
	removeAfter(j.a, j.b)

	Describe("creation", j.creation)
	Describe("what etcd holds", j.stores)
	Describe("where and as whom components run", j.placement)
	Describe("two tenants side by side", j.isolation)
	Describe("the manager killed", j.managerKilled)
	// After the manager began anew, and before anything in tenants is broken on purpose: a series of events about that ends with a write
	// minutes later.
	Describe("a settled tenant", j.settled)
	Describe("leader election", j.leaders)
	Describe("self-healing", j.healing)
	Describe("key material", j.keyMaterial)
	Describe("pause", j.pause)
	Describe("deletion", j.deletion)
}
