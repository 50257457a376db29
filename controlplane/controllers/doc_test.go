package controllers

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The table of the package comment is the order of the steps, and says which are kept up while one before them waits.
func TestThePackageCommentHasTheStepsInTheirOrder(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "//\tstep ")
	table, _, ended := strings.Cut(table, "//\n")
	if !found || !ended {
		t.Fatal("there is no table of steps")
	}
	rows := strings.Split(strings.TrimSpace(table), "\n")[1:]
	steps := (&Reconciler{}).order()
	if len(rows) != len(steps) {
		t.Fatalf("the table has %d steps, and there are %d", len(rows), len(steps))
	}
	columns := regexp.MustCompile(` {2,}`)
	for i, row := range rows {
		cells := columns.Split(strings.TrimPrefix(row, "//\t"), -1)
		if len(cells) != 3 {
			t.Fatalf("%q has %d columns", row, len(cells))
		}
		after := strings.Split(cells[1], ", ")
		if cells[1] == "-" {
			after = nil
		}
		if step := steps[i]; cells[0] != step.Name || !slices.Equal(after, step.After) || (cells[2] != "-") != (step.Keep != nil) {
			t.Errorf("%q: step %d is %s after %v, and it is %t that it is kept up", row, i+1, step.Name, step.After, step.Keep != nil)
		}
	}
}
