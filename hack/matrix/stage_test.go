package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestStepsRunBesideTheOnesBeforeThem(t *testing.T) {
	found := stages([]step{{name: "a"}, {name: "b"}, {name: "c", beside: true}, {name: "d"}})
	var text []string
	for _, stage := range found {
		var in []string
		for _, s := range stage {
			in = append(in, s.name)
		}
		text = append(text, strings.Join(in, "+"))
	}
	if want := []string{"a", "b+c", "d"}; !slices.Equal(text, want) {
		t.Errorf("the stages are %q, want %q", text, want)
	}
}

func TestTheFirstFailureOfAGateInterruptsWhatRunsBeside(t *testing.T) {
	stage := []step{{name: "waits"}, {name: "fails"}}
	running := make(chan struct{})
	results, err := list{failsFast: true}.runStage(t.Context(), stage, func(ctx context.Context, s step, title string) (result, error) {
		if title != s.name {
			t.Errorf("%s is shown as %q", s.name, title)
		}
		if s.name == "waits" {
			close(running)
			<-ctx.Done() // or the test never ends
			return s.notRun("", "interrupted"), nil
		}
		<-running // neither waits for the other to end
		return result{Rows: []row{{Outcome: failedOutcome}}}, nil
	})
	if err != nil || results[0].Rows[0].Note != "interrupted" || results[1].Rows[0].Outcome != failedOutcome {
		t.Errorf("%v, %v", results, err)
	}
}

func TestAListThatRunsInPartsHasNoStepsBesideOthers(t *testing.T) {
	for _, l := range lists() {
		for _, s := range l.steps {
			if s.beside && !l.failsFast {
				t.Errorf("%s of %s runs beside another, which may be of another part", s.name, l.name)
			}
		}
	}
}

func TestLinesOfStepsBesideEachOtherStayWhole(t *testing.T) {
	var shown bytes.Buffer
	a, b := &screen{to: &shown, title: "a"}, &screen{to: &shown, title: "b"}
	for _, write := range []struct {
		to   *screen
		text string
	}{{a, "one "}, {b, "uno\ndos\n"}, {a, "line\nan end"}} {
		if n, err := fmt.Fprint(write.to, write.text); err != nil || n != len(write.text) {
			t.Errorf("%d, %v", n, err)
		}
	}
	a.flush()
	b.flush()
	if want := "b | uno\nb | dos\na | one line\na | an end\n"; shown.String() != want {
		t.Errorf("%q, want %q", shown.String(), want)
	}
}
