package rotation

import "slices"

// Phase is how far a rotation has come.
type Phase string

// Phases of a rotation, in their order.
const (
	// Trusting: the new key is stored, and pods come to trust it beside the former one.
	Trusting Phase = "Trusting"
	// Using: all pods trust both keys, and come to use the new one.
	Using Phase = "Using"
	// Prepared: all pods use the new key, and trust the former one still.
	Prepared Phase = "Prepared"
	// Dropping: pods come to trust the new key alone. Where something is found that would be lost, they come to trust both again.
	Dropping Phase = "Dropping"
	// Over: there is the new key alone.
	Over Phase = "Over"
)

// order lists the phases of a rotation that is under way.
var order = []Phase{Trusting, Using, Prepared, Dropping}

// Record is how far the last rotation of a kind of key has come. The zero value is for a key that was never rotated.
type Record struct {
	// Asked is the prepareAfter that asked for it, in RFC 3339 and UTC.
	Asked string `json:"asked"`
	Phase Phase  `json:"phase"`
	// Since is when all pods had come to use the new key, in the same form; empty before.
	Since string `json:"since,omitempty"`
	// Ended is when the phase came to be Over, in the same form; empty before.
	Ended string `json:"ended,omitempty"`
}

// UnderWay reports whether a rotation has begun and is not over.
func (r Record) UnderWay() bool { return r.Phase != "" && r.Phase != Over }

// Need is something that needs the former key.
type Need struct {
	// Name is how a person gives it up. Why says more about it; empty where the name says enough.
	Name, Why string
	// Lost is true for what would be lost for ever without the former key: nobody can give it up.
	Lost bool
	// Unknown is true while nobody knows whether there is such a thing. Such a need holds a rotation up, and takes none back.
	Unknown bool
}

// State is all that a decision on a kind of key depends on. Times are in RFC 3339 and UTC, which sort as texts.
type State struct {
	// Kind is what people call the kind of key.
	Kind string
	// Prepare and Complete are prepareAfter and completeAfter of spec.keyRotation; empty for a time that is still to come, or not set.
	Prepare, Complete string
	// Problem is why no phase may end or begin: pods could not be rendered with the keys of the next one. Empty for none.
	Problem string
	Record  Record
	// Now is the present time.
	Now string
	// Behind names the pods, workloads and ConfigMaps that do not have the keys of the phase.
	Behind []string
	// Needs are what is seen to need the former key. Doing says what the manager does so that less needs it; empty for nothing.
	Needs []Need
	Doing string
	// GivenUp are names of needs that a person gives up.
	GivenUp []string
}

// Begins reports whether a person asks for a rotation that has not begun.
func (s State) Begins() bool { return !s.Record.UnderWay() && s.Prepare > s.Record.Asked }

// needs are the needs that nobody has given up.
func (s State) needs() []Need {
	var left []Need
	for _, need := range s.Needs {
		if need.Lost || !slices.Contains(s.GivenUp, need.Name) {
			left = append(left, need)
		}
	}
	return left
}

// wouldBeLost are the needs of what would be lost without the former key, or may be.
func (s State) wouldBeLost() []Need {
	return slices.DeleteFunc(slices.Clone(s.Needs), func(need Need) bool { return !need.Lost })
}

// losesSomething reports whether something was found that would be lost without the former key.
func (s State) losesSomething() bool {
	return slices.ContainsFunc(s.Needs, func(need Need) bool { return need.Lost && !need.Unknown })
}
