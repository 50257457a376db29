package rotation

import (
	"fmt"
	"slices"
)

// Together decides what to do next with each kind of key. Kinds that were asked for by the same time leave a phase together, so that API
// servers restart once for all of them.
func Together(states []State) []Action {
	actions := make([]Action, len(states))
	for i, state := range states {
		actions[i] = Decide(state)
	}
	held := slices.Clone(actions)
	for i, state := range states {
		for j, other := range states {
			if i != j && actions[i].Kind == Write && state.waitsFor(other, actions[j]) {
				held[i] = Action{Kind: Wait, Reason: fmt.Sprintf("waits for the %s, which was asked for at the same time: API servers restart once for both", other.Kind)}
			}
		}
	}
	return held
}

// waitsFor reports whether a kind that could leave its phase has to wait for another kind. next is what that one would do by itself.
func (s State) waitsFor(other State, next Action) bool {
	at := slices.Index(order, s.Record.Phase)
	switch s.Record.Phase {
	case Trusting, Using:
	case Prepared:
		// A kind that a person takes out of the request does not hold up the others.
		if other.Complete < s.Record.Asked {
			return false
		}
	default:
		return false
	}
	if other.Begins() && other.Prepare == s.Record.Asked {
		return true
	}
	if !other.Record.UnderWay() || other.Record.Asked != s.Record.Asked {
		return false
	}
	with := slices.Index(order, other.Record.Phase)
	return with < at || with == at && next.Kind == Wait
}
