package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/processgroup"
)

// list is what one run of the matrix does.
type list struct {
	name  string
	steps []step
	// figures are those that its steps have to measure.
	figures []string
}

func lists() []list {
	return []list{
		{name: "test-all", steps: []step{
			{name: "lint", target: "lint"},
			{name: "verify", target: "verify"},
			{name: "test-unit", target: "test-unit"},
			{name: "test-envtest", target: "test-envtest"},
			{name: "test-lb", target: "test-lb"},
			{name: "test-lab", target: "test-lab"},
			endToEnd("e2e-full", "gating || full", 7*time.Hour),
			endToEnd("e2e-releases", "releases", 3*time.Hour),
			endToEnd("e2e-move", "move", 2*time.Hour),
			capi, contracts, conformance,
		}, figures: slices.Concat(upgradeFigures, []string{"move_failed_requests", "move_lost_writes", "move_pod_restarts", "move_settled_writes"})},
		{name: "bench-upgrade", steps: []step{
			endToEnd("e2e-upgrade", "upgrade || scale", 4*time.Hour),
			endToEnd("e2e-releases", "releases", 3*time.Hour),
			capi, contracts, conformance,
		}, figures: upgradeFigures},
	}
}

var upgradeFigures = []string{
	"upgrade_seconds", "upgrade_failed_requests", "upgrade_lost_writes", "upgrade_raw_429", "upgrade_raw_5xx", "upgrade_raw_broken",
	"scale_failed_requests", "scale_lost_writes", "scale_raw_429", "scale_raw_5xx", "scale_raw_broken", "provider_upgrade_pod_restarts",
	"capi_specs_passed", "contract_rules_tested", "conformance_passed", "conformance_failed",
}

var (
	capi        = step{name: "capi", target: "test-capi", ginkgo: true}
	contracts   = step{name: "contracts", target: "test-contracts"}
	conformance = step{name: "conformance", target: "test-conformance"}
)

// endToEnd runs the specs with some labels.
func endToEnd(name, labels string, limit time.Duration) step {
	s := step{name: name, target: "test-e2e", ginkgo: true, labels: labels}
	s.args = []string{"E2E_LABELS=" + labels, "E2E_TIMEOUT=" + limit.String(), "E2E_REPORT=" + s.report()}
	return s
}

func names(all []list) []string {
	var found []string
	for _, l := range all {
		found = append(found, l.name)
	}
	return found
}

// step is one make target of a list.
type step struct {
	// name is that of its log, of its figures (see package figures), and of its report.
	name, target string
	args         []string
	// ginkgo is true for a target that runs specs of ginkgo and writes their report.
	ginkgo bool
	// labels of the specs that it runs; empty when the target runs no others.
	labels string
}

// report is where the JSON report of ginkgo is, if the step writes one.
func (s step) report() string { return filepath.Join("out", s.name+".json") }

// specs gives a row for each spec in the step's report. Where specs should have run and none did, nothing was tested.
func (s step) specs() ([]row, error) {
	if !s.ginkgo {
		return nil, nil
	}
	rows, err := readReport(s.report())
	if err == nil && len(rows) == 0 {
		err = fmt.Errorf("no spec ran of %s", s.title())
	}
	return rows, err
}

func (s step) title() string {
	if s.labels != "" {
		return fmt.Sprintf("make %s E2E_LABELS=%q", s.target, s.labels)
	}
	return "make " + s.target
}

// cleanUpLimit is the time that an interrupted step has to remove what it made, more than the longest clean-up takes: one
// that is cut short leaves the lab unfit for what comes next.
const cleanUpLimit = 40 * time.Minute

// run makes the target. Its output is shown and kept. What it reported before is forgotten.
func (s step) run(ctx context.Context, logs string) row {
	result := row{name: s.title()}
	log := filepath.Join(logs, s.name+".log")
	file, err := os.Create(log)
	if err == nil {
		defer file.Close() //nolint:errcheck // A log that lost its end does not change the outcome.
		err = os.RemoveAll(s.report())
	}
	if err == nil {
		err = figures.Forget(s.name)
	}
	if err != nil {
		result.outcome, result.note = notRun, err.Error()
		return result
	}
	fmt.Printf("\n==== %s\n", s.title())
	cmd := exec.CommandContext(ctx, "make", append([]string{s.target}, s.args...)...)
	cmd.Stdout, cmd.Stderr = io.MultiWriter(file, screen{os.Stdout}), io.MultiWriter(file, screen{os.Stderr})
	began := time.Now()
	// A terminal that sent a second interrupt would have ginkgo give up its clean-ups.
	err = processgroup.Run(cmd, cleanUpLimit)
	result.took = time.Since(began)
	if err != nil {
		result.outcome, result.note = failedOutcome, log
		return result
	}
	result.outcome = passed
	return result
}

// screen is an output that may go away, such as a terminal: what is written then is in the log alone.
type screen struct{ io.Writer }

func (s screen) Write(p []byte) (int, error) {
	_, _ = s.Writer.Write(p)
	return len(p), nil
}
