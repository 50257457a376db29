package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2/types"
)

// conformanceTag is in the name of every conformance spec.
const conformanceTag = "[Conformance]"

// result is what became of a plan.
type result struct {
	plan   *plan
	passed int
	failed []failure
	// notRun are specs that were to run and did not: the suite ended before.
	notRun []string
	took   time.Duration
}

// failure is a spec, or a step of the suite, that failed.
type failure struct {
	name, message string
}

func readReport(file string) (*types.Report, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var reports []types.Report
	if err := json.Unmarshal(data, &reports); err != nil {
		return nil, fmt.Errorf("read the report %s: %w", file, err)
	}
	if len(reports) != 1 {
		return nil, fmt.Errorf("the report %s is of %d suites, want one", file, len(reports))
	}
	return &reports[0], nil
}

// conformanceSpecs are the names of all conformance specs of a report.
func conformanceSpecs(report *types.Report) (names []string) {
	for _, spec := range report.SpecReports {
		if name := spec.FullText(); spec.LeafNodeType.Is(types.NodeTypeIt) && strings.Contains(name, conformanceTag) {
			names = append(names, name)
		}
	}
	return names
}

// judge compares a report with the plan.
func judge(p *plan, report *types.Report) *result {
	r := &result{plan: p, took: report.RunTime}
	specs := map[string]types.SpecReport{}
	for _, spec := range report.SpecReports {
		if spec.LeafNodeType.Is(types.NodeTypeIt) {
			specs[spec.FullText()] = spec
		} else if spec.Failed() {
			r.failed = append(r.failed, failure{spec.LeafNodeType.String(), spec.Failure.Message})
		}
	}
	for _, name := range p.run {
		spec := specs[name] // the zero value did not run
		switch {
		case spec.State.Is(types.SpecStatePassed):
			r.passed++
		case spec.Failed():
			r.failed = append(r.failed, failure{name, spec.Failure.Message})
		case spec.State.Is(types.SpecStateSkipped) && spec.Failure.Message != "":
			// It was chosen because it can be tested here.
			r.failed = append(r.failed, failure{name, "it skips itself: " + spec.Failure.Message})
		default:
			r.notRun = append(r.notRun, name)
		}
	}
	for _, reason := range report.SpecialSuiteFailureReasons {
		r.failed = append(r.failed, failure{"the suite", reason})
	}
	return r
}

// failures is how many specs, or steps of the suite, did not do what they should.
func (r *result) failures() int { return len(r.failed) + len(r.notRun) }

// write prints the sums, why specs were skipped, and what failed.
func (r *result) write(w io.Writer, version string) {
	skipped := 0
	for _, g := range r.plan.skipped {
		skipped += len(g.Specs)
	}
	fmt.Fprintf(w, "%d conformance specs of Kubernetes %s: %d passed, %d failed, %d skipped; %s\n",
		r.plan.total(), version, r.passed, r.failures(), skipped, r.took.Round(time.Second))
	for _, g := range r.plan.skipped {
		fmt.Fprintf(w, "%5d skipped: %s\n", len(g.Specs), g.Why)
	}
	for _, f := range r.failed {
		fmt.Fprintf(w, "\nFAILED %s\n    %s\n", f.name, strings.ReplaceAll(firstLines(f.message, 5), "\n", "\n    "))
	}
	if len(r.notRun) > 0 {
		fmt.Fprintf(w, "\nFAILED %d specs, which did not run, such as %s\n", len(r.notRun), r.notRun[0])
	}
}

// writeSkipped lists every spec that was skipped, by reason.
func writeSkipped(w io.Writer, groups []group) error {
	for _, g := range groups {
		if _, err := fmt.Fprintf(w, "%s\n  %s\n\n", g.Why, strings.Join(g.Specs, "\n  ")); err != nil {
			return err
		}
	}
	return nil
}

func firstLines(text string, count int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[:min(count, len(lines))], "\n")
}
