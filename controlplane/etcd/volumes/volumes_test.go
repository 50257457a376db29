package volumes

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

func TestDecide(t *testing.T) {
	// claim has a volume of 8Gi that may grow.
	claim := func(name string, edits ...func(*Claim)) Claim {
		c := Claim{Name: name, Asked: resource.MustParse("8Gi"), Size: resource.MustParse("8Gi"), Bound: true, Class: "fast", Grows: true}
		for _, edit := range edits {
			edit(&c)
		}
		return c
	}
	asks := func(size string) func(*Claim) { return func(c *Claim) { c.Asked = resource.MustParse(size) } }
	has := func(size string) func(*Claim) { return func(c *Claim) { c.Size = resource.MustParse(size) } }
	unbound := func(c *Claim) { c.Bound, c.Size = false, resource.Quantity{} }
	rigid := func(c *Claim) { c.Grows = false }
	byHand := func(c *Claim) { c.Class, c.Grows = "", false }
	refused := func(c *Claim) { c.Refusal = "the pool is full" }
	for name, test := range map[string]struct {
		wanted string
		claims []Claim
		ask    []string
		says   []string
	}{
		"nothing is to do":                    {wanted: "8Gi", claims: []Claim{claim("a"), claim("b")}},
		"the same size, written otherwise":    {wanted: "8192Mi", claims: []Claim{claim("a")}},
		"a volume has more than was asked":    {wanted: "8Gi", claims: []Claim{claim("a", has("10Gi"))}},
		"all grow":                            {wanted: "16Gi", claims: []Claim{claim("a"), claim("b")}, ask: []string{"a", "b"}},
		"one grows already":                   {wanted: "16Gi", claims: []Claim{claim("a", asks("16Gi")), claim("b")}, ask: []string{"b"}},
		"a new member has the size of before": {wanted: "16Gi", claims: []Claim{claim("a", asks("16Gi"), has("16Gi")), claim("b")}, ask: []string{"b"}},
		"one has no volume yet":               {wanted: "16Gi", claims: []Claim{claim("a", unbound), claim("b")}, ask: []string{"b"}},
		"its class lets none grow": {wanted: "16Gi", claims: []Claim{claim("a"), claim("b", rigid)}, ask: []string{"a"},
			says: []string{"spec.etcd.data.storage.size is 16Gi", "claim b has 8Gi", "StorageClass fast", "allowVolumeExpansion", "back to 8Gi"}},
		"it has no class": {wanted: "16Gi", claims: []Claim{claim("a", byHand)}, says: []string{"no StorageClass", "back to 8Gi"}},
		"less than volumes have": {wanted: "4Gi", claims: []Claim{claim("a"), claim("b")},
			says: []string{"claim a has 8Gi", "claim b has 8Gi", "no volume shrinks"}},
		"the storage has no more": {wanted: "16Ti", claims: []Claim{claim("a", asks("16Ti"), refused)},
			says: []string{"claim a has 8Gi", "a size above 8Gi", "the pool is full"}},
		"a size that the storage does not have is taken back": {wanted: "12Gi", claims: []Claim{claim("a", asks("16Ti"), refused)}, ask: []string{"a"}},
		"it is taken back to what the volume has": {wanted: "8Gi", claims: []Claim{claim("a", asks("16Ti"), refused)},
			says: []string{"claim a has 8Gi", "set a size that is larger"}},
	} {
		t.Run(name, func(t *testing.T) {
			plan := Decide("spec.etcd.data.storage.size", resource.MustParse(test.wanted), test.claims)
			if !slices.Equal(plan.Ask, test.ask) || (plan.Problem != "") != (len(test.says) > 0) {
				t.Errorf("got %+v, want %v", plan, test.ask)
			}
			for _, part := range test.says {
				if !strings.Contains(plan.Problem, part) {
					t.Errorf("%q does not say %q", plan.Problem, part)
				}
			}
		})
	}
}
