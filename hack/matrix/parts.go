package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// partLimit is how long one part of a list may take: two of them fit into three hours, with time to read them.
const partLimit = 45 * time.Minute

// part chooses the steps of one run. Several runs share the steps of a list; the zero part chooses all of them.
type part struct{ number, of int }

// parsePart reads PART: "3/20" chooses the third of twenty parts, and no value chooses the whole list.
func parsePart(text string) (part, error) {
	if text == "" {
		return part{}, nil
	}
	number, of, _ := strings.Cut(text, "/")
	p := part{}
	var errs [2]error
	p.number, errs[0] = strconv.Atoi(number)
	p.of, errs[1] = strconv.Atoi(of)
	if errs[0] != nil || errs[1] != nil || p.number < 1 || p.number > p.of {
		return part{}, fmt.Errorf("PART=%s: write it as 3/20, the third of twenty parts", text)
	}
	return p, nil
}

// choose returns which of the steps belong to the part.
func (p part) choose(steps []step) (map[string]bool, error) {
	chosen := map[string]bool{}
	if p.of == 0 {
		for _, s := range steps {
			chosen[s.name] = true
		}
		return chosen, nil
	}
	parts := split(steps, p.of)
	for i, inPart := range parts {
		if took := sum(inPart); took > partLimit {
			return nil, fmt.Errorf("PART=%d/%d: part %d would take %s, and a part has %s: use more parts", p.number, p.of, i+1, took, partLimit)
		}
	}
	for _, s := range parts[p.number-1] {
		chosen[s.name] = true
	}
	return chosen, nil
}

// split cuts the steps, in their order, into n parts of which the longest is as short as it can be. The last parts are
// empty when fewer are enough.
func split(steps []step, n int) [][]step {
	limit := time.Duration(0)
	for _, s := range steps {
		limit = max(limit, s.usual)
	}
	for {
		parts := fill(steps, limit)
		if len(parts) <= n {
			return append(parts, make([][]step, n-len(parts))...)
		}
		limit += time.Minute
	}
}

// fill begins another part whenever the next step would make the last one longer than the limit.
func fill(steps []step, limit time.Duration) [][]step {
	var parts [][]step
	for _, s := range steps {
		last := len(parts) - 1
		if last < 0 || sum(parts[last])+s.usual > limit {
			parts = append(parts, []step{s})
			continue
		}
		parts[last] = append(parts[last], s)
	}
	return parts
}

func sum(steps []step) (total time.Duration) {
	for _, s := range steps {
		total += s.usual
	}
	return total
}
