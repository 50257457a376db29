package rotation

import (
	"strings"
	"testing"
)

func TestKindsThatAreAskedForTogetherMoveTogether(t *testing.T) {
	asks := func(s *State) { s.Record = Record{} }
	earlier := func(s *State) { s.Record.Asked = "2026-01-01T00:00:00Z" }
	for name, test := range map[string]struct {
		a, b State
		// next are the phases that come next; empty for one that waits.
		nextA, nextB Phase
	}{
		"both begin":                                   {State{Prepare: first}, State{Prepare: first}, Trusting, Trusting},
		"one was begun when the manager died":          {at(Trusting), at(Trusting, asks), "", Trusting},
		"all trust both kinds":                         {at(Trusting), at(Trusting), Using, Using},
		"one API server does not trust one kind":       {at(Trusting), at(Trusting, behind("pod a")), "", ""},
		"one kind came further":                        {at(Using), at(Trusting), "", Using},
		"one kind does not use the new key":            {at(Using), at(Using, behind("pod a")), "", ""},
		"both are in use":                              {at(Using), at(Using), Prepared, Prepared},
		"one kind waits for what needs it":             {at(Prepared, complete(now)), at(Prepared, complete(now), needed("c")), "", ""},
		"... and a person takes that kind out":         {at(Prepared, complete(now)), at(Prepared, needed("c")), Dropping, ""},
		"both can be dropped":                          {at(Prepared, complete(now)), at(Prepared, complete(now)), Dropping, Dropping},
		"one came to be dropped when the manager died": {at(Dropping, behind("pod a")), at(Prepared, complete(now)), "", Dropping},
		"one is gone first":                            {at(Dropping), at(Dropping, behind("pod a")), Over, ""},
		"one comes back, and the other goes on":        {at(Dropping, lost("objects/a")), at(Dropping), Using, Over},
		"... when its pods have the new key alone":     {at(Dropping, lost("objects/a")), at(Dropping, behind("pod a")), Using, ""},
		"... and comes to be prepared by itself":       {at(Using), at(Dropping, behind("pod a")), Prepared, ""},
		"... and is dropped by itself":                 {at(Prepared, complete(now)), at(Dropping, behind("pod a")), Dropping, ""},
		"one that was not dropped waits for it":        {at(Using, complete(now), behind("pod a")), at(Prepared, complete(now)), "", ""},
		"the other was asked for earlier":              {at(Trusting), at(Prepared, earlier), Using, ""},
		"the other was never asked for":                {at(Trusting), State{}, Using, ""},
		"the other is over":                            {at(Using), at(Over), Prepared, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, swapped := range []bool{false, true} {
				states, want := []State{test.a, test.b}, []Phase{test.nextA, test.nextB}
				if swapped {
					states, want = []State{test.b, test.a}, []Phase{test.nextB, test.nextA}
				}
				states[0].Kind, states[1].Kind = "first kind", "second kind"
				for i, action := range Together(states) {
					if action.Record.Phase != want[i] || (action.Kind == Write) != (want[i] != "") {
						t.Errorf("kind %d: got %+v, want %q", i, action, want[i])
					}
				}
			}
		})
	}
	actions := Together([]State{at(Trusting), {Kind: "other key", Prepare: first}})
	if !strings.Contains(actions[0].Reason, "waits for the other key") {
		t.Errorf("it says %q", actions[0].Reason)
	}
}

// Whatever order kinds come to be ready in, API servers restart for both at once: no two phases of kinds differ after a step.
func TestKindsAreInOnePhaseAllTheTime(t *testing.T) {
	states := []State{{Prepare: second, Complete: second, Now: now}, {Prepare: second, Complete: second, Now: now}}
	for round := range 20 {
		states[round%2].Behind = []string{"pod a"}
		for range 2 {
			for i, action := range Together(states) {
				if action.Kind == Write {
					states[i].Record = action.Record
				}
			}
			if a, b := states[0].Record.Phase, states[1].Record.Phase; a != b && a != Over && b != Over {
				t.Fatalf("one is %s, the other %s", a, b)
			}
			states[0].Behind, states[1].Behind = nil, nil
		}
	}
	if states[0].Record.Phase != Over || states[1].Record.Phase != Over {
		t.Errorf("they end as %s and %s", states[0].Record.Phase, states[1].Record.Phase)
	}
}
