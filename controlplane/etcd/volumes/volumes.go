package volumes

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Claim is the volume claim of a member, as the host cluster has it.
type Claim struct {
	Name string
	// Asked is the size that it asks for, and Size that of its volume.
	Asked, Size resource.Quantity
	// Bound is false while it has no volume, or is being deleted: nobody can change it then.
	Bound bool
	// Class is its StorageClass; empty for none. Grows reports whether that allows volumes to grow.
	Class string
	Grows bool
	// Refusal is the storage's error about growing the volume; empty for none.
	Refusal string
}

// Plan is what is done about the claims of an etcd cluster.
type Plan struct {
	// Ask are the names of the claims that ask for the wanted size from now on.
	Ask []string
	// Problem is what only a person can put right; empty for nothing.
	Problem string
}

// Decide says which claims ask for another size. Field is that of the wanted size, for people. Volumes never shrink. A claim that asks
// for more than its volume has may ask for less again, but for more than that: else nobody could take a size back that the storage
// does not have.
func Decide(field string, wanted resource.Quantity, claims []Claim) Plan {
	var plan Plan
	var problems []string
	for _, claim := range claims {
		switch problem := claim.problem(wanted); {
		case !claim.Bound:
		case problem != "":
			problems = append(problems, fmt.Sprintf("volume claim %s %s", claim.Name, problem))
		case claim.Asked.Cmp(wanted) != 0:
			plan.Ask = append(plan.Ask, claim.Name)
		}
	}
	if len(problems) > 0 {
		plan.Problem = fmt.Sprintf("%s is %s: %s", field, wanted.String(), strings.Join(problems, "; "))
	}
	return plan
}

// problem says why the volume of a claim cannot get a size, and what a person does; empty when it can, or has it.
func (c Claim) problem(wanted resource.Quantity) string {
	switch {
	case wanted.Cmp(c.Asked) == 0 && c.Refusal != "":
		return fmt.Sprintf("has %s, and does not grow: %s. Put that right (the claim's events may tell more), or set a size above %[1]s that the storage has", c.Size.String(), c.Refusal)
	case wanted.Cmp(c.Asked) < 0 && wanted.Cmp(c.Size) <= 0:
		return fmt.Sprintf("has %s, and no volume shrinks: set a size that is larger", c.Size.String())
	case wanted.Cmp(c.Asked) > 0 && c.Class == "":
		return fmt.Sprintf("has %s and no StorageClass, which alone can let it grow: set the size back to %s", c.Size.String(), c.Asked.String())
	case wanted.Cmp(c.Asked) > 0 && !c.Grows:
		return fmt.Sprintf("has %s, and its StorageClass %s lets no volume grow: set allowVolumeExpansion there, or set the size back to %s",
			c.Size.String(), c.Class, c.Asked.String())
	}
	return ""
}
