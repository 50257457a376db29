package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/ginkgo/v2/types"
)

func TestJudge(t *testing.T) {
	p := &plan{
		run:     []string{"passes", "fails", "skips itself", "is not in the report", "was never reached", "timed out"},
		skipped: []group{{Why: "needs a shell", Specs: []string{"left out"}}},
	}
	spec := func(name string, state types.SpecState, message string) types.SpecReport {
		return types.SpecReport{LeafNodeType: types.NodeTypeIt, LeafNodeText: name, State: state, Failure: types.Failure{Message: message}}
	}
	got := judge(p, &types.Report{
		SpecReports: types.SpecReports{
			{LeafNodeType: types.NodeTypeSynchronizedBeforeSuite, State: types.SpecStatePassed},
			{LeafNodeType: types.NodeTypeReportAfterSuite, State: types.SpecStateFailed, Failure: types.Failure{Message: "cannot write"}},
			spec("passes", types.SpecStatePassed, ""),
			spec("fails", types.SpecStateFailed, "expected 1\ngot 2"),
			spec("skips itself", types.SpecStateSkipped, "not this time\nreally"),
			spec("was never reached", types.SpecStateSkipped, ""),
			spec("timed out", types.SpecStateTimedout, "too slow"),
			spec("left out", types.SpecStateSkipped, ""),
		},
		SpecialSuiteFailureReasons: []string{"Suite Timeout Elapsed"},
	})
	if got.passed != 1 {
		t.Errorf("%d passed, want 1", got.passed)
	}
	want := []failure{
		{"ReportAfterSuite", "cannot write"},
		{"fails", "expected 1\ngot 2"},
		{"skips itself", "it skips itself: not this time\nreally"},
		{"timed out", "too slow"},
		{"the suite", "Suite Timeout Elapsed"},
	}
	if diff := cmp.Diff(want, got.failed, cmp.AllowUnexported(failure{})); diff != "" {
		t.Errorf("what failed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"is not in the report", "was never reached"}, got.notRun); diff != "" {
		t.Errorf("what did not run (-want +got):\n%s", diff)
	}
	if got.failures() != 7 {
		t.Errorf("%d failures, want 7", got.failures())
	}
}

func TestTheSummaryNamesReasonsAndTheBeginningOfFailures(t *testing.T) {
	r := &result{
		plan:   &plan{run: []string{"a", "b", "d"}, skipped: []group{{Why: "needs a shell", Specs: []string{"c"}}}},
		passed: 1, failed: []failure{{"b", "1\n2\n3\n4\n5\n6"}}, notRun: []string{"d"},
	}
	var text strings.Builder
	r.write(&text, "v1.36.3")
	want := `4 conformance specs of Kubernetes v1.36.3: 1 passed, 2 failed, 1 skipped; 0s
    1 skipped: needs a shell

FAILED b
    1
    2
    3
    4
    5

FAILED 1 specs, which did not run, such as d
`
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
