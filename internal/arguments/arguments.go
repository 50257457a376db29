// Package arguments finds which command line arguments of a program belong to a controller.
package arguments

import (
	"maps"
	"strings"
)

// Owned are arguments that belong to a controller, by name without leading dashes. A name that ends in "*" stands for
// all names with that prefix. The value is a message for the person who set the argument: why it is refused, or what
// to set instead.
type Owned map[string]string

// Reason says whether an argument belongs to the controller, and why. Of several names that end in "*" the longest
// counts.
func (o Owned) Reason(name string) (reason string, owned bool) {
	if reason, owned = o[name]; owned {
		return reason, true
	}
	longest := ""
	for pattern, candidate := range o {
		prefix, isPrefix := strings.CutSuffix(pattern, "*")
		if isPrefix && strings.HasPrefix(name, prefix) && len(pattern) > len(longest) {
			longest, reason, owned = pattern, candidate, true
		}
	}
	return reason, owned
}

// With returns these arguments and others. For an argument in both, the message of others counts.
func (o Owned) With(others Owned) Owned {
	all := maps.Clone(o)
	maps.Copy(all, others)
	return all
}
