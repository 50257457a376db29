package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestAFindingIsOpenUntilItsTestsPass(t *testing.T) {
	event := func(action, test string) string {
		return fmt.Sprintf(`{"Action":%q,"Package":"a","Test":%q}`+"\n", action, test)
	}
	all := ""
	for number := 1; number <= audited; number++ {
		all += event("pass", fmt.Sprintf("TestFinding%dIsMended", number))
	}
	for name, test := range map[string]struct {
		report string
		want   []int
	}{
		"all have a test that passed":               {all, nil},
		"one of two tests failed":                   {all + event("fail", "TestFinding3AnswersAreBounded"), []int{3}},
		"a case of a test failed":                   {all + event("fail", "TestFinding11Users/of_an_older_program"), []int{11}},
		"a test was skipped":                        {all + event("skip", "TestFinding10Connections"), []int{10}},
		"a test only began":                         {strings.Replace(all, event("pass", "TestFinding2IsMended"), event("run", "TestFinding2IsMended"), 1), []int{2}},
		"a test of finding 11 is none of finding 1": {strings.Replace(all, event("pass", "TestFinding1IsMended"), "", 1), []int{1}},
		"other tests say nothing":                   {all + event("fail", "TestOther"), nil},
		"findings of later audits do not count":     {all + event("fail", "TestFinding12IsMended"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			open, err := openIn(strings.NewReader(test.report))
			if err != nil || !slices.Equal(open, test.want) {
				t.Errorf("open are %v, %v, want %v", open, err, test.want)
			}
		})
	}
	if _, err := openIn(strings.NewReader("no report")); err == nil {
		t.Error("what is no report is read as one")
	}
}
