package rotation

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is what is done next.
type Kind string

// Kinds of actions. Each is safe to do twice.
const (
	// None: no rotation is asked for, or the last one is over.
	None Kind = ""
	// Wait: something must happen first, which the reason names.
	Wait Kind = "Wait"
	// Write stores Action.Record. Where it begins a rotation, a new key is made.
	Write Kind = "Write"
)

// Action is one step.
type Action struct {
	Kind Kind
	// Record is set for Write alone.
	Record Record
	// Reason says what the kind waits for. It is set for Wait alone.
	Reason string
}

// Decide says what to do next with a kind of key, without regard to other kinds.
func Decide(s State) Action {
	switch {
	case !s.Record.UnderWay() && !s.Begins():
		return Action{}
	case s.Problem != "":
		return Action{Kind: Wait, Reason: s.heldBy()}
	}
	switch s.Record.Phase {
	case Trusting:
		return s.afterRollout(Using, "pods come to trust both keys, and the former one is in use")
	case Using:
		return s.afterRollout(Prepared, "pods come to use the new key, and trust both")
	case Prepared:
		return s.complete()
	case Dropping:
		if s.losesSomething() {
			return s.write(Using)
		}
		if lost := s.wouldBeLost(); len(lost) > 0 {
			return Action{Kind: Wait, Reason: "pods come to trust the new key alone, and the former one stays stored: " + strings.Join(s.neededBy(lost), "; ")}
		}
		return s.afterRollout(Over, "pods come to trust the new key alone")
	}
	return Action{Kind: Write, Record: Record{Asked: s.Prepare, Phase: Trusting}}
}

func (s State) heldBy() string {
	if s.Record.UnderWay() {
		return "does not go on: " + s.Problem
	}
	return "has not begun: " + s.Problem
}

// afterRollout goes on when all pods have the keys of the present phase.
func (s State) afterRollout(next Phase, what string) Action {
	if len(s.Behind) > 0 {
		return Action{Kind: Wait, Reason: what + ": waits for " + some(s.Behind)}
	}
	return s.write(next)
}

// complete waits for a person, and for what needs the former key.
func (s State) complete() Action {
	left := s.needs()
	reasons := s.neededBy(left)
	if s.Complete < s.Record.Asked {
		reasons = append(reasons, fmt.Sprintf("to drop the former key, set spec.keyRotation.completeAfter to the present time, and not before %s", s.Record.Asked))
	} else if slices.ContainsFunc(left, func(need Need) bool { return !need.Lost }) {
		reasons = append(reasons, "to drop it all the same, add these names to spec.keyRotation.completeAnyway")
	}
	if len(reasons) > 0 {
		return Action{Kind: Wait, Reason: "pods use the new key, and trust both: " + strings.Join(reasons, "; ")}
	}
	return s.write(Dropping)
}

func (s State) write(next Phase) Action {
	record := s.Record
	switch record.Phase = next; next {
	case Prepared:
		record.Since = s.Now
	case Over:
		record.Ended = s.Now
	}
	return Action{Kind: Write, Record: record}
}

// neededBy says what needs the former key, and what the manager does about it; nil without needs.
func (s State) neededBy(needs []Need) []string {
	if len(needs) == 0 {
		return nil
	}
	var all []string
	for _, need := range needs {
		if need.Why != "" {
			all = append(all, fmt.Sprintf("%s (%s)", need.Name, need.Why))
		} else {
			all = append(all, need.Name)
		}
	}
	reasons := []string{"the former key is needed by " + strings.Join(all, ", ")}
	if s.Doing != "" {
		reasons = append(reasons, s.Doing)
	}
	return reasons
}

// most is how many pods a message names.
const most = 5

func some(of []string) string { return Some(First(of, most)) }

// First are the first of a list, most of them, and how many others there are. A tenant may have thousands of what a message names.
func First[T any](of []T, most int) (named []T, more int) {
	named = of[:min(len(of), most)]
	return named, len(of) - len(named)
}

// Some tells of the first of a list, and of how many others there are.
func Some[T any](named []T, more int) string {
	texts := make([]string, 0, len(named))
	for _, name := range named {
		texts = append(texts, fmt.Sprint(name))
	}
	if more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(texts, ", "), more)
	}
	return strings.Join(texts, ", ")
}
