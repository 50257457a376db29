package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlan(t *testing.T) {
	s := &selection{
		Run:  []group{{Why: "the API alone", Specs: []string{"[sig-apps] CronJob", "[sig-apps] Job should be listed"}}},
		Skip: []group{{Why: "needs a shell", Specs: []string{"[sig-apps] Job", "[sig-apps] Deployment"}}},
	}
	got, err := s.plan([]string{"[sig-apps] Job should run", "[sig-apps] Job should be listed", "[sig-apps] Deployment", "[sig-apps] CronJob should be listed"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"[sig-apps] CronJob should be listed", "[sig-apps] Job should be listed"}, got.run); diff != "" {
		t.Errorf("what runs (-want +got):\n%s", diff)
	}
	want := []group{{Why: "needs a shell", Specs: []string{"[sig-apps] Deployment", "[sig-apps] Job should run"}}}
	if diff := cmp.Diff(want, got.skipped); diff != "" {
		t.Errorf("what is skipped (-want +got):\n%s", diff)
	}
	if got.total() != 4 {
		t.Errorf("got %d specs in all, want 4", got.total())
	}
}

func TestPlanRefuses(t *testing.T) {
	run := []group{{Why: "the API alone", Specs: []string{"[sig-apps] Job"}}}
	for name, test := range map[string]struct {
		selection selection
		specs     []string
		want      string
	}{
		"a spec that nothing is said of": {
			selection{Run: run}, []string{"[sig-apps] Job runs", "[sig-node] Pods"}, "neither run nor skipped: [sig-node] Pods",
		},
		"a spec of which only a part of a word is said": {
			selection{Run: run}, []string{"[sig-apps] Job runs", "[sig-apps] JobSet"}, "neither run nor skipped: [sig-apps] JobSet",
		},
		"an entry that no spec is for": {
			selection{Run: run, Skip: []group{{Why: "gone", Specs: []string{"[sig-apps] PetSet"}}}}, []string{"[sig-apps] Job runs"}, "no spec is for the entry: [sig-apps] PetSet",
		},
		"an entry that runs and is skipped": {
			selection{Run: run, Skip: []group{{Why: "needs a shell", Specs: []string{"[sig-apps] Job"}}}}, []string{"[sig-apps] Job runs"}, "the entry is there twice: [sig-apps] Job",
		},
		"to skip without a reason": {
			selection{Run: run, Skip: []group{{Specs: []string{"[sig-apps] PetSet"}}}}, []string{"[sig-apps] Job runs", "[sig-apps] PetSet"}, "a group needs a reason",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := test.selection.plan(test.specs); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestTheListOfSpecsHasNoMistakes(t *testing.T) {
	s, err := parseSelection(specsFile)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := s.entries(&plan{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.beginning, "[sig-") {
			t.Errorf("no spec begins with %q", e.beginning)
		}
	}
}

func TestOnlySomeOfWhatRuns(t *testing.T) {
	p := &plan{run: []string{"[sig-a] one", "[sig-b] two"}, skipped: []group{{Why: "needs a shell", Specs: []string{"[sig-b] three"}}}}
	if err := p.only("sig-b"); err != nil {
		t.Fatal(err)
	}
	want := &plan{run: []string{"[sig-b] two"}, skipped: []group{
		{Why: "needs a shell", Specs: []string{"[sig-b] three"}}, {Why: "not asked for", Specs: []string{"[sig-a] one"}},
	}}
	if diff := cmp.Diff(want, p, cmp.AllowUnexported(plan{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, expression := range []string{"three", "("} {
		if err := p.only(expression); err == nil || !strings.HasPrefix(err.Error(), "--only: ") {
			t.Errorf("only(%q): %v", expression, err)
		}
	}
}
