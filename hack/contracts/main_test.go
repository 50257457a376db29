package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheReferenceListsTheRulesOfThisVersion(t *testing.T) {
	page, err := reference()
	if err != nil {
		t.Fatal(err)
	}
	present, err := os.ReadFile("../../" + out)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(present), string(page)); diff != "" {
		t.Errorf("make generate writes another %s:\n%s", out, diff)
	}
}
