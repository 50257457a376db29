package main

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed specs.yaml
var specsFile []byte

// selection says of conformance specs whether they run, and why.
type selection struct {
	Run  []group `json:"run"`
	Skip []group `json:"skip"`
}

// group are specs that run, or do not, for one reason.
type group struct {
	Why string `json:"why"`
	// Specs are beginnings of names, up to a space or the end.
	Specs []string `json:"specs"`
}

// plan is what becomes of all specs of one version.
type plan struct {
	// run are the names of those that run.
	run []string
	// skipped are all others by reason, in the order of the selection.
	skipped []group
}

// total is how many specs there are.
func (p *plan) total() int {
	sum := len(p.run)
	for _, g := range p.skipped {
		sum += len(g.Specs)
	}
	return sum
}

// only skips what would run and has a name that does not match an expression.
func (p *plan) only(expression string) error {
	wanted, err := regexp.Compile(expression)
	if err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	left := group{Why: "not asked for"}
	p.run = slices.DeleteFunc(p.run, func(spec string) bool {
		if !wanted.MatchString(spec) {
			left.Specs = append(left.Specs, spec)
			return true
		}
		return false
	})
	if len(p.run) == 0 {
		return fmt.Errorf("--only: no spec that runs matches %q", expression)
	}
	p.skipped = append(p.skipped, left)
	return nil
}

func parseSelection(data []byte) (*selection, error) {
	s := &selection{}
	if err := yaml.UnmarshalStrict(data, s); err != nil {
		return nil, fmt.Errorf("read the list of specs: %w", err)
	}
	return s, nil
}

// entry is one beginning of names.
type entry struct {
	beginning string
	// skip is the group that leaves specs out; nil for those that run.
	skip *group
	used bool
}

func (e *entry) matches(spec string) bool {
	rest, found := strings.CutPrefix(spec, e.beginning)
	return found && (rest == "" || rest[0] == ' ')
}

// plan gives every spec to the entry with its longest beginning. A spec without one, and an entry without a spec, are
// errors: nothing is left out in silence, and no reason outlives what it was for.
func (s *selection) plan(specs []string) (*plan, error) {
	p := &plan{}
	entries, err := s.entries(p)
	if err != nil {
		return nil, err
	}
	var problems []error
	for _, spec := range slices.Sorted(slices.Values(specs)) {
		var longest *entry
		for _, e := range entries {
			if e.matches(spec) && (longest == nil || len(e.beginning) > len(longest.beginning)) {
				longest = e
			}
		}
		switch {
		case longest == nil:
			problems = append(problems, fmt.Errorf("neither run nor skipped: %s", spec))
			continue
		case longest.skip != nil:
			longest.skip.Specs = append(longest.skip.Specs, spec)
		default:
			p.run = append(p.run, spec)
		}
		longest.used = true
	}
	for _, e := range entries {
		if !e.used {
			problems = append(problems, fmt.Errorf("no spec is for the entry: %s", e.beginning))
		}
	}
	return p, errors.Join(problems...)
}

// entries are all beginnings; those that skip lead to the plan's groups, which have no specs yet.
func (s *selection) entries(p *plan) (entries []*entry, err error) {
	known := map[string]bool{}
	add := func(g group, skip *group) {
		if g.Why == "" || len(g.Specs) == 0 {
			err = errors.Join(err, fmt.Errorf("a group needs a reason and specs: %q %q", g.Why, g.Specs))
		}
		for _, beginning := range g.Specs {
			if known[beginning] {
				err = errors.Join(err, fmt.Errorf("the entry is there twice: %s", beginning))
			}
			known[beginning] = true
			entries = append(entries, &entry{beginning: beginning, skip: skip})
		}
	}
	for _, g := range s.Run {
		add(g, nil)
	}
	p.skipped = make([]group, len(s.Skip))
	for i, g := range s.Skip {
		p.skipped[i].Why = g.Why
		add(g, &p.skipped[i])
	}
	return entries, err
}
