package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onsi/ginkgo/v2/types"
)

func TestEverySpecOfAReportHasARow(t *testing.T) {
	spec := func(text string, state types.SpecState, message string) types.SpecReport {
		return types.SpecReport{LeafNodeText: text, LeafNodeType: types.NodeTypeIt, State: state, Failure: types.Failure{Message: message}}
	}
	rows := rowsOf(t, types.Report{SpecReports: types.SpecReports{
		{LeafNodeType: types.NodeTypeBeforeSuite, State: types.SpecStatePassed},
		spec("creates a tenant", types.SpecStatePassed, ""),
		spec("cuts the link", types.SpecStateSkipped, "needs the lab's hosts\nmore"),
		spec("waits for long", types.SpecStateSkipped, ""),
		spec("deletes a tenant", types.SpecStateFailed, "a pod is left"),
	}})
	var out bytes.Buffer
	if err := writeTable(&out, "abc", rows); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"commit abc", "needs the lab's hosts\n", "a pod is left", "1 passed, 1 failed, 1 skipped, 1 not run"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}

func TestASuiteThatFailedEarlyHasNoRows(t *testing.T) {
	rows, err := readReport(filepath.Join(t.TempDir(), "none.json"))
	if err != nil || len(rows) != 0 {
		t.Errorf("%v, %v", rows, err)
	}
}

func TestAStepWhoseSpecsDidNotRunTestedNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, l := range lists() {
		for _, s := range l.steps {
			rows, err := s.reported()
			if s.ginkgo && (err == nil || !strings.Contains(err.Error(), "no spec ran of make "+s.target)) || !s.ginkgo && err != nil || len(rows) > 0 {
				t.Errorf("%s of %s: %v, %v", s.name, l.name, rows, err)
			}
		}
	}
}

func TestSpecsThatTheLabelFilterLeavesOutHaveNoRow(t *testing.T) {
	spec := func(text string, state types.SpecState, container, leaf []string) types.SpecReport {
		return types.SpecReport{
			LeafNodeText: text, LeafNodeType: types.NodeTypeIt, State: state,
			ContainerHierarchyLabels: [][]string{container}, LeafNodeLabels: leaf,
		}
	}
	rows := rowsOf(t, types.Report{
		SuiteLabels: []string{"lab"}, SuiteConfig: types.SuiteConfig{LabelFilter: "lab && (upgrade || scale)"},
		SpecReports: types.SpecReports{
			{LeafNodeType: types.NodeTypeBeforeSuite, State: types.SpecStateFailed},
			spec("chosen by its container", types.SpecStatePassed, []string{"full", "upgrade"}, nil),
			spec("chosen by itself", types.SpecStatePassed, nil, []string{"scale"}),
			spec("chosen and not reached", types.SpecStateSkipped, []string{"upgrade"}, nil),
			spec("left out", types.SpecStateSkipped, []string{"full"}, nil),
			spec("left out and pending", types.SpecStatePending, nil, nil),
		},
	})
	want := []row{
		{Name: "  BeforeSuite", Outcome: failedOutcome}, {Name: "  chosen by its container", Outcome: passed},
		{Name: "  chosen by itself", Outcome: passed}, {Name: "  chosen and not reached", Outcome: notRun},
	}
	same := func(a, b row) bool { return a.Name == b.Name && a.Outcome == b.Outcome }
	if !slices.EqualFunc(rows, want, same) {
		t.Errorf("the rows are %v", rows)
	}
}

// rowsOf gives the rows of a report that ginkgo wrote.
func rowsOf(t *testing.T, report types.Report) []row {
	t.Helper()
	data, err := json.Marshal([]types.Report{report})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	rows, err := readReport(file)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}
