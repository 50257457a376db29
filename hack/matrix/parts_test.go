package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// taking are steps named a, b, ... that usually take so many minutes each.
func taking(minutes ...int) []step {
	var steps []step
	for i, m := range minutes {
		steps = append(steps, step{name: string(rune('a' + i)), usual: time.Duration(m) * time.Minute})
	}
	return steps
}

func TestSplit(t *testing.T) {
	for name, test := range map[string]struct {
		minutes []int
		parts   int
		want    []string
	}{
		"one part has all steps":                        {[]int{5, 10, 15}, 1, []string{"abc"}},
		"steps keep their order, and parts are even":    {[]int{10, 10, 10, 10}, 2, []string{"ab", "cd"}},
		"a long step has a part of its own":             {[]int{5, 40, 5}, 3, []string{"a", "b", "c"}},
		"parts that are not needed are empty":           {[]int{40, 5}, 4, []string{"a", "b", "", ""}},
		"the longest part is as short as it can be":     {[]int{30, 10, 20, 20}, 2, []string{"ab", "cd"}},
		"steps that take no time join the part at hand": {[]int{0, 20, 0, 20}, 2, []string{"abc", "d"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, part := range split(taking(test.minutes...), test.parts) {
				names := ""
				for _, s := range part {
					names += s.name
				}
				got = append(got, names)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("the parts are %q, not %q", got, test.want)
			}
		})
	}
}

func TestParts(t *testing.T) {
	steps := taking(30, 30, 30)
	for text, want := range map[string]string{"": "abc", "1/3": "a", "3/3": "c", "4/4": ""} {
		p, err := parsePart(text)
		if err != nil {
			t.Fatal(err)
		}
		chosen, err := p.choose(steps)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, s := range steps {
			if chosen[s.name] {
				got += s.name
			}
		}
		if got != want {
			t.Errorf("PART=%s has %q, not %q", text, got, want)
		}
	}
	for _, text := range []string{"0/3", "4/3", "1", "/", "a/b", "-1/2", "1/2/3"} {
		if _, err := parsePart(text); err == nil || !strings.Contains(err.Error(), "write it as 3/20") {
			t.Errorf("PART=%s: %v", text, err)
		}
	}
	if _, err := (part{1, 2}).choose(steps); err == nil || !strings.Contains(err.Error(), "use more parts") {
		t.Errorf("a part that takes an hour: %v", err)
	}
}

// The parts that the documentation speaks of are long enough for what they have to do.
func TestEveryPartOfTestAllFits(t *testing.T) {
	l := lists()[slices.IndexFunc(lists(), func(l list) bool { return l.name == "test-all" })]
	for _, s := range l.steps {
		if s.usual == 0 {
			t.Errorf("the step %s does not say how long it usually takes", s.name)
		}
	}
	documented := regexp.MustCompile(`PART=\d+/\d+`).FindString(read(t, "../../CONTRIBUTING.md"))
	p, err := parsePart(strings.TrimPrefix(documented, "PART="))
	if err != nil || p.of == 0 {
		t.Fatalf("CONTRIBUTING.md names no part: %q, %v", documented, err)
	}
	if _, err := p.choose(l.steps); err != nil {
		t.Error(err)
	}
}
