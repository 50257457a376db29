package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
)

func TestAFigureIsJudgedByItsTarget(t *testing.T) {
	of := func(name string, value any, scenario string) figures.Figure {
		f := figures.New(name, value, "s")
		f.Scenario = scenario
		return f
	}
	all, err := withSums([]figures.Figure{
		of("upgrade_seconds", "83.2", ""), of("join_seconds", "7.5", "alone"), of("join_seconds", "6", "again"),
		of("host_clusters_tested", 1, "v1.35"), of("host_clusters_tested", 1, "v1.36"), of("lost", 0, ""), of("commands", 26, ""), of("tries", 29, ""),
		of("met", 1, ""), of("met_at_most", 25, ""), of("met_at_least", 8, ""), of("other_clusters_tested", 1, ""), of("other_clusters_tested", 1, ""),
	})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := judge(slices.Concat(
		anything("upgrade_seconds", "nobody_measured"), shown(atMost(7, "join_seconds")), exactly(3, "host_clusters_tested"), exactly(1, "lost"),
		atMost(25, "commands"), atLeast(30, "tries"), exactly(1, "met"), atMost(25, "met_at_most"), atLeast(8, "met_at_least"), exactly(2, "other_clusters_tested"),
	), all)
	want := []row{
		{Name: "figure nobody_measured", Outcome: notRun, Note: "no step measured it"},
		{Name: "figure join_seconds", Outcome: missed, Note: "is 7.5, wanted at most 7: alone"},
		{Name: "figure host_clusters_tested", Outcome: failedOutcome, Note: "is 2, wanted exactly 3: sum of 2 scenarios"},
		{Name: "figure lost", Outcome: failedOutcome, Note: "is 0, wanted exactly 1"},
		{Name: "figure commands", Outcome: failedOutcome, Note: "is 26, wanted at most 25"},
		{Name: "figure tries", Outcome: failedOutcome, Note: "is 29, wanted at least 30"},
	}
	if err != nil || !slices.Equal(rows, want) {
		t.Errorf("the rows are %v, %v, want %v", rows, err, want)
	}
}

func TestARunFailsForATargetOfCountsAndShowsOneOfTimes(t *testing.T) {
	for name, test := range map[string]struct {
		wanted []wanted
		fails  bool
		shows  string
	}{
		"no target":            {anything("measured"), false, "1 passed, 0 failed, 0 skipped, 0 not run, 0 missed"},
		"it is met":            {exactly(2, "measured"), false, "1 passed, 0 failed, 0 skipped, 0 not run, 0 missed"},
		"it is missed":         {exactly(0, "measured"), true, "FAILED figure measured is 2, wanted exactly 0"},
		"it is missed, a time": {shown(exactly(0, "measured")), false, "figure measured missed 0.0 is 2, wanted exactly 0"},
		"it is not there":      {exactly(0, "other"), true, "1 passed, 0 failed, 0 skipped, 1 not run, 0 missed"},
	} {
		t.Run(name, func(t *testing.T) {
			inRepository(t, "good:\n\t@mkdir -p out/figures && echo '[{\"name\": \"measured\", \"value\": 2}]' >out/figures/first.json\n")
			l := list{name: "some", steps: []step{{name: "first", target: "good"}}, figures: test.wanted}
			var err error
			out := printed(t, func() { err = l.run(t.Context(), part{}) })
			if (err != nil) != test.fails || !strings.Contains(out, test.shows) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// A part of a list has measured a part of what is added up.
func TestAFigureIsNotJudgedBeforeEveryStepRan(t *testing.T) {
	inRepository(t, twoTargets)
	l := list{name: "some", figures: exactly(3, "tested"), steps: []step{
		{name: "first", target: "good", usual: time.Minute}, {name: "second", target: "good", usual: time.Minute},
	}}
	var err error
	if out := printed(t, func() { err = l.run(t.Context(), part{1, 2}) }); err != nil || strings.Contains(out, "figure tested") {
		t.Errorf("%v\n%s", err, out)
	}
}

// What goes wrong for users is counted, and a list that wants such a figure wants none of it. While the lead of etcd moves a few requests may fail,
// as the pages say: then their spec fails for more than a few.
func TestFailedRequestsAndLostWritesFailARun(t *testing.T) {
	leadMoves := []string{"rotation_failed_requests", "rotation_of_all_failed_requests", "rendering_rollout_failed_requests", "host_upgrade_failed_requests"}
	for _, l := range lists() {
		for _, w := range l.figures {
			if !strings.HasSuffix(w.name, "_failed_requests") && !strings.HasSuffix(w.name, "_lost_writes") || slices.Contains(leadMoves, w.name) {
				continue
			}
			if w.target == nil || w.target.shown || !w.target.missedBy(1) {
				t.Errorf("%s of %s may be 1", w.name, l.name)
			}
		}
	}
}

// What a step measures of users' requests counts in each list that runs it.
func TestAListWantsWhatItsStepsMeasure(t *testing.T) {
	of := map[string][]wanted{software.name: softwareFigures, "e2e-host-upgrade": hostFigures, "e2e-move": moveFigures}
	for _, l := range lists() {
		for _, s := range l.steps {
			for _, w := range of[s.name] {
				if !slices.Contains(l.figures, w) {
					t.Errorf("%s has the step %s and does not want %s", l.name, s.name, w.name)
				}
			}
		}
	}
}

func TestARatioThatIsMuchWorseFails(t *testing.T) {
	measured := func(factor float64) (all []figures.Figure) {
		for _, r := range storedRatios {
			value := r.value * factor
			if r.higherIsBetter {
				value = r.value / factor
			}
			all = append(all, figures.New(r.name, fmt.Sprintf("%.4f", value), "ratio"))
		}
		return all
	}
	for factor, want := range map[float64]int{0.5: 0, 1: 0, 1.25: 0, 1.35: len(storedRatios)} {
		rows, err := judge(ratioFigures(), measured(factor))
		if err != nil || len(rows) != want {
			t.Errorf("%g times as bad: %d rows, %v, want %d", factor, len(rows), err, want)
		}
	}
}
