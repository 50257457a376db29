package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// testEvent is one line of a report of Go's tests; "go doc test2json" describes it.
type testEvent struct {
	Action, Package, Test, Output string
	// Elapsed is in seconds.
	Elapsed float64
}

// readGoTests gives a row for every test that failed, and for every one that was skipped. A test that failed by its subtests alone has
// none. A package that failed without a test, such as one that does not compile, has one. A run that failed early may have written no
// report.
func readGoTests(file string) ([]row, error) {
	report, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer report.Close() //nolint:errcheck // It is only read.
	var rows []row
	var parts []string          // tests and packages of which something else that failed is a part
	said := map[string]string{} // the last line of each test
	for events := json.NewDecoder(report); ; {
		var e testEvent
		err := events.Decode(&e)
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return rows, fmt.Errorf("read the report %s: %w", file, err)
		}
		// Subtests end before their test, and tests before their package.
		whole := e.Package + " " + e.Test
		result := row{Name: "  " + strings.TrimSpace(whole), Took: time.Duration(e.Elapsed * float64(time.Second))}
		switch {
		case e.Action == "output" && !strings.HasPrefix(strings.TrimSpace(e.Output), "---"):
			said[whole] = e.Output
		case e.Action == "skip" && e.Test != "": // A package without tests is skipped too.
			result.Outcome, result.Note = skipped, message(said[whole])
			rows = append(rows, result)
		}
		if e.Action != "fail" || slices.Contains(parts, whole) {
			continue
		}
		result.Outcome = failedOutcome
		rows = append(rows, result)
		parts = append(parts, e.Package+" ")
		for test := path.Dir(e.Test); test != "."; test = path.Dir(test) {
			parts = append(parts, e.Package+" "+test)
		}
	}
}

// place is what Go's tests write before a message.
var place = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

// message is a line of a test without the place that it came from.
func message(line string) string { return strings.TrimSpace(place.ReplaceAllString(line, "")) }
