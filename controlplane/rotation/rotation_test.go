package rotation

import (
	"slices"
	"strings"
	"testing"
)

const (
	first  = "2026-03-04T05:06:07Z"
	second = "2026-03-05T05:06:07Z"
	now    = "2026-03-05T12:00:00Z"
)

// at is a rotation that was asked for first and has come to a phase, of which nobody is behind.
func at(phase Phase, changes ...func(*State)) State {
	s := State{Prepare: first, Record: Record{Asked: first, Phase: phase}, Now: now}
	for _, change := range changes {
		change(&s)
	}
	return s
}

func behind(names ...string) func(*State) { return func(s *State) { s.Behind = names } }
func complete(when string) func(*State)   { return func(s *State) { s.Complete = when } }
func problem(says string) func(*State)    { return func(s *State) { s.Problem = says } }
func prepare(when string) func(*State)    { return func(s *State) { s.Prepare = when } }
func needed(names ...string) func(*State) {
	return func(s *State) {
		for _, name := range names {
			s.Needs = append(s.Needs, Need{Name: name})
		}
	}
}
func lost(names ...string) func(*State) {
	return func(s *State) {
		for _, name := range names {
			s.Needs = append(s.Needs, Need{Name: name, Why: "of no use without it", Lost: true})
		}
	}
}
func unknown(names ...string) func(*State) {
	return func(s *State) {
		for _, name := range names {
			s.Needs = append(s.Needs, Need{Name: name, Why: "it is being looked at", Lost: true, Unknown: true})
		}
	}
}
func doing(says string) func(*State)       { return func(s *State) { s.Doing = says } }
func givenUp(names ...string) func(*State) { return func(s *State) { s.GivenUp = names } }

func TestDecide(t *testing.T) {
	for name, test := range map[string]struct {
		state State
		want  Kind
		next  Phase
		says  string
	}{
		"nothing is asked for":                    {State{Now: now}, None, "", ""},
		"nothing is asked for any more":           {at(Over, prepare("")), None, "", ""},
		"a first rotation begins":                 {State{Prepare: first, Now: now}, Write, Trusting, ""},
		"... when the control plane is there":     {State{Prepare: first, Problem: "it is not initialized", Now: now}, Wait, "", "has not begun: it is not initialized"},
		"a control plane that is not rendered":    {at(Trusting, problem("spec.version: unknown")), Wait, "", "does not go on: spec.version: unknown"},
		"... does not drop a key":                 {at(Prepared, complete(first), problem("spec.version: unknown")), Wait, "", "does not go on: spec.version: unknown"},
		"... and nobody asks for a rotation":      {at(Over, problem("spec.version: unknown")), None, "", ""},
		"the same time asks for nothing more":     {at(Over), None, "", ""},
		"an earlier time asks for nothing":        {at(Over, prepare("2026-01-01T00:00:00Z")), None, "", ""},
		"a later time asks for another one":       {at(Over, prepare(second)), Write, Trusting, ""},
		"a completion alone asks for no rotation": {at(Over, complete(now)), None, "", ""},

		"an API server does not trust the new key": {at(Trusting, behind("pod a")), Wait, "", "waits for pod a"},
		"many do not":                                   {at(Trusting, behind("1", "2", "3", "4", "5", "6", "7")), Wait, "", "waits for 1, 2, 3, 4, 5 and 2 more"},
		"all trust it":                                  {at(Trusting), Write, Using, ""},
		"... though nobody asks any more":               {at(Trusting, prepare("")), Write, Using, ""},
		"one uses the former key":                       {at(Using, behind("pod a")), Wait, "", "come to use the new key, and trust both: waits for pod a"},
		"all use the new one":                           {at(Using), Write, Prepared, ""},
		"prepared, and nobody asks for the end":         {at(Prepared), Wait, "", "set spec.keyRotation.completeAfter to the present time, and not before " + first},
		"... what needs the former key is told":         {at(Prepared, needed("secret/a/b")), Wait, "", "the former key is needed by secret/a/b; to drop"},
		"the end of an earlier rotation is no end":      {at(Prepared, complete("2026-01-01T00:00:00Z")), Wait, "", "completeAfter"},
		"the end is asked for":                          {at(Prepared, complete(first)), Write, Dropping, ""},
		"... and something needs the former key":        {at(Prepared, complete(now), needed("secret/a/b", "c")), Wait, "", "needed by secret/a/b, c; to drop it all the same, add these names to spec.keyRotation.completeAnyway"},
		"... and one of two is given up":                {at(Prepared, complete(now), needed("secret/a/b", "c"), givenUp("c")), Wait, "", "needed by secret/a/b; to"},
		"... and all are given up":                      {at(Prepared, complete(now), needed("secret/a/b", "c"), givenUp("c", "secret/a/b")), Write, Dropping, ""},
		"... what would be lost is not given up":        {at(Prepared, complete(now), lost("objects/a"), givenUp("objects/a")), Wait, "", "needed by objects/a (of no use without it)"},
		"... not beside what is":                        {at(Prepared, complete(now), lost("objects/a"), needed("c"), givenUp("c")), Wait, "", "needed by objects/a (of no use without it)"},
		"pods trust both again where one would be lost": {at(Dropping, lost("objects/a")), Write, Using, ""},
		"... though a pod has the former key yet":       {at(Dropping, lost("objects/a"), behind("pod a")), Write, Using, ""},
		"... whatever else nobody knows":                {at(Dropping, unknown("b"), lost("objects/a")), Write, Using, ""},
		"... and whatever a person gives up":            {at(Dropping, lost("objects/a"), givenUp("objects/a")), Write, Using, ""},
		"... but not while pods cannot be rendered":     {at(Dropping, lost("objects/a"), problem("spec.patches: refused")), Wait, "", "does not go on: spec.patches: refused"},
		"the former key stays while nobody knows":       {at(Dropping, unknown("objects/a")), Wait, "", "the former one stays stored: the former key is needed by objects/a (it is being looked at)"},
		"nothing is dropped while nobody knows":         {at(Prepared, complete(now), unknown("objects/a"), givenUp("objects/a")), Wait, "", "needed by objects/a (it is being looked at)"},
		"... and for nothing else":                      {at(Dropping, needed("c")), Write, Over, ""},
		"... what is done about it is told":             {at(Prepared, complete(now), lost("objects/a"), doing("7 were written")), Wait, "", "needed by objects/a (of no use without it); 7 were written"},
		"... until nothing needs it":                    {at(Prepared, complete(now), doing("7 were written")), Write, Dropping, ""},
		"another rotation waits for the present":        {at(Prepared, prepare(second)), Wait, "", "set spec.keyRotation.completeAfter"},
		"... and the end of the present one is due":     {at(Prepared, prepare(second), complete(first)), Write, Dropping, ""},
		"one trusts the former key":                     {at(Dropping, behind("pod a")), Wait, "", "trust the new key alone: waits for pod a"},
		"none does":                                     {at(Dropping), Write, Over, ""},
		"the request is taken away at the end":          {at(Dropping, prepare(""), complete("")), Write, Over, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := Decide(test.state)
			if got.Kind != test.want || got.Record.Phase != test.next || !strings.Contains(got.Reason, test.says) {
				t.Errorf("got %+v", got)
			}
			if got.Kind == Write && test.state.Record.UnderWay() && got.Record.Asked != first {
				t.Errorf("the request changed on the way: %+v", got.Record)
			}
			if (got.Kind == Wait) != (got.Reason != "") {
				t.Errorf("it waits for nothing, or tells what it does not wait for: %+v", got)
			}
		})
	}
}

// Each phase is passed, in its order. The time from which the new key is in use is kept to the end, and that of an end is not kept for the next.
func TestARotationPassesEveryPhaseInItsOrder(t *testing.T) {
	s := State{Prepare: second, Complete: second, Record: Record{Asked: first, Phase: Over, Ended: first}, Now: now}
	var passed []Phase
	for range 10 {
		action := Decide(s)
		if action.Kind != Write {
			break
		}
		s.Record = action.Record
		passed = append(passed, s.Record.Phase)
		if (s.Record.Ended != "") != (s.Record.Phase == Over) {
			t.Errorf("in %s it has ended at %q", s.Record.Phase, s.Record.Ended)
		}
	}
	if want := []Phase{Trusting, Using, Prepared, Dropping, Over}; !slices.Equal(passed, want) {
		t.Errorf("it passed %v, want %v", passed, want)
	}
	if s.Record != (Record{Asked: second, Phase: Over, Since: now, Ended: now}) {
		t.Errorf("it ends with %+v", s.Record)
	}
}

// What is found in Dropping is written by the new key before the same request drops the former one.
func TestAKeyThatWasDroppedTooEarlyComesBack(t *testing.T) {
	s, found := at(Dropping, complete(second), behind("pod a")), []Need{{Name: "objects/a", Lost: true}}
	var passed []Phase
	for range 10 {
		if s.Needs = nil; slices.Contains([]Phase{Prepared, Dropping}, s.Record.Phase) {
			s.Needs = found
		}
		action := Decide(s)
		if action.Kind != Write {
			if s.Record.Phase != Prepared {
				t.Fatalf("it waits in %s: %s", s.Record.Phase, action.Reason)
			}
			found = nil // API servers read it again, and wrote it by the new key.
			continue
		}
		s.Record, s.Behind = action.Record, nil
		if passed = append(passed, s.Record.Phase); s.Record.Phase == Over {
			break
		}
	}
	if want := []Phase{Using, Prepared, Dropping, Over}; !slices.Equal(passed, want) {
		t.Errorf("it passed %v, want %v", passed, want)
	}
	if s.Record != (Record{Asked: first, Phase: Over, Since: now, Ended: now}) {
		t.Errorf("it ends with %+v", s.Record)
	}
}
