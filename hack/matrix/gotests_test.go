package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestATestThatFailedOrWasSkippedHasARow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.jsonl")
	const events = `{"Action":"pass","Package":"a","Test":"TestOne"}
{"Action":"fail","Package":"a","Test":"TestTwo/b/c","Elapsed":1.5}
{"Action":"fail","Package":"b","Test":"TestTwo"}
{"Action":"pass","Package":"a","Test":"TestTwo/d"}
{"Action":"fail","Package":"a","Test":"TestTwo/b"}
{"Action":"fail","Package":"a","Test":"TestTwo"}
{"Action":"fail","Package":"a"}
{"Action":"fail","Package":"b"}
{"Action":"fail","Package":"does-not-compile"}
{"Action":"output","Package":"c","Test":"TestThree","Output":"=== RUN   TestThree\n"}
{"Action":"output","Package":"c","Test":"TestThree","Output":"    three_test.go:7: one gate in 4 runs it\n"}
{"Action":"output","Package":"c","Test":"TestThree","Output":"--- SKIP: TestThree (0.00s)\n"}
{"Action":"skip","Package":"c","Test":"TestThree"}
{"Action":"skip","Package":"without-tests"}
`
	if err := os.WriteFile(file, []byte(events), 0o600); err != nil {
		t.Fatal(err)
	}
	rows, err := readGoTests(file)
	if err != nil {
		t.Fatal(err)
	}
	want := []row{
		{Name: "  a TestTwo/b/c", Outcome: failedOutcome, Took: 1500e6}, {Name: "  b TestTwo", Outcome: failedOutcome},
		{Name: "  does-not-compile", Outcome: failedOutcome}, {Name: "  c TestThree", Outcome: skipped, Note: "one gate in 4 runs it"},
	}
	if !slices.Equal(rows, want) {
		t.Errorf("the rows are %v, want %v", rows, want)
	}
}
