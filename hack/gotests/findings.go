package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/golist"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
)

// audited is how many findings the audit of security has, numbered from 1.
const audited = 11

// named tells the finding that a test is named after.
var named = regexp.MustCompile(`^TestFinding(\d+)\D`)

// findings runs the tests that are named after findings, and counts the findings of which none passed, or one did not.
func findings(ctx context.Context) error {
	packages, err := golist.Packages(ctx, tags, everything)
	if err != nil {
		return err
	}
	var tested []string
	for _, p := range packages {
		functions, err := p.Functions("TestFinding", "T")
		if err != nil {
			return err
		}
		if len(functions) > 0 {
			tested = append(tested, p.ImportPath)
		}
	}
	const report = "out/test-findings.json"
	failed := goTest(ctx, report, plain, tested, "-tags="+tags, "-run="+named.String(), "-count=1", "-timeout=45m", sideBySide)
	events, err := os.Open(report)
	if err != nil {
		return errors.Join(failed, err)
	}
	defer events.Close() //nolint:errcheck // It is only read.
	open, err := openIn(events)
	if err != nil {
		return errors.Join(failed, err)
	}
	figure := figures.New("findings_open", len(open), "findings")
	fmt.Println(figure)
	if err := figures.Write("test-findings", []figures.Figure{figure}); err != nil {
		return err
	}
	if len(open) > 0 {
		return errors.Join(failed, fmt.Errorf("of the findings %v no test passed that is named after them, or one did not", open))
	}
	return failed
}

// openIn reads a report of Go's tests, and gives the findings that are open.
func openIn(report io.Reader) ([]int, error) {
	passed, missed := map[int]bool{}, map[int]bool{}
	for events := json.NewDecoder(report); ; {
		var e struct{ Action, Test string }
		err := events.Decode(&e)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read the report of the tests of findings: %w", err)
		}
		finding := named.FindStringSubmatch(e.Test)
		if finding == nil {
			continue
		}
		number, err := strconv.Atoi(finding[1])
		if err != nil {
			return nil, err
		}
		switch e.Action {
		case "pass":
			passed[number] = true
		case "fail", "skip":
			missed[number] = true
		}
	}
	var open []int
	for number := 1; number <= audited; number++ {
		if !passed[number] || missed[number] {
			open = append(open, number)
		}
	}
	return slices.Clip(open), nil
}
