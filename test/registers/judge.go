package registers

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// Outcome says whether a history is linearizable.
type Outcome string

// A history is NotJudged when it has no operation, or when its judgement took too long.
const (
	Yes       Outcome = "yes"
	No        Outcome = "no"
	NotJudged Outcome = "not judged"
)

// Verdict is what came of a history.
type Verdict struct {
	Outcome Outcome
	// Register is the one that is not linearizable, or whose judgement took too long.
	Register int
	// Writes, Open and Reads are how many operations of each kind the history has; Writes were acknowledged.
	Writes, Open, Reads int
}

// String sums it up.
func (v Verdict) String() string {
	counts := fmt.Sprintf("%d acknowledged writes, %d open writes and %d reads of registers", v.Writes, v.Open, v.Reads)
	switch {
	case v.Outcome == Yes:
		return counts + " are linearizable"
	case v.Outcome == No:
		return fmt.Sprintf("%s are not linearizable: register %d", counts, v.Register)
	case v.Writes+v.Open+v.Reads == 0:
		return "there is nothing to judge"
	}
	return fmt.Sprintf("%s were not judged: register %d took too long", counts, v.Register)
}

// Judge judges all registers of a history, for so long at most.
func Judge(history []Operation, patience time.Duration) Verdict {
	verdict := count(history)
	each := map[int][]Operation{}
	for _, o := range history {
		each[o.Register] = append(each[o.Register], o)
	}
	deadline := time.Now().Add(patience)
	for _, register := range slices.Sorted(maps.Keys(each)) {
		verdict.Register, verdict.Outcome = register, judge(each[register], time.Until(deadline))
		if verdict.Outcome != Yes {
			break
		}
	}
	return verdict
}

// count is a history that nobody has judged yet.
func count(history []Operation) Verdict {
	verdict := Verdict{Outcome: NotJudged}
	for _, o := range history {
		switch {
		case !o.Write:
			verdict.Reads++
		case o.Open:
			verdict.Open++
		default:
			verdict.Writes++
		}
	}
	return verdict
}

// judge judges one register.
func judge(history []Operation, patience time.Duration) Outcome {
	var operations []porcupine.Operation
	for _, o := range closed(history) {
		operations = append(operations, porcupine.Operation{ClientId: o.Client, Input: o, Call: int64(o.Called), Return: int64(o.Returned)})
	}
	// No time at all would be all the time in the world.
	switch porcupine.CheckOperationsTimeout(register, operations, max(patience, 1)) {
	case porcupine.Ok:
		return Yes
	case porcupine.Illegal:
		return No
	}
	return NotJudged
}

// register has the value that was written last, and begins with the empty one.
var register = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, _ any) (bool, any) {
		o := input.(Operation) //nolint:forcetypeassert // judge makes them.
		if o.Write {
			return true, o.Value
		}
		return o.Value == state, state
	},
}
