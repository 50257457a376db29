package hashes

import (
	"maps"
	"slices"
	"testing"
)

// at is a comparison at a revision, of voters with the IDs 1, 2, and so on. Their hashes are letters; "-" has not answered.
func at(revision int64, sums string) []Hash {
	var hashes []Hash
	for i, sum := range sums {
		hashes = append(hashes, Hash{ID: uint64(i + 1), Answered: sum != '-', Version: "3.6.8", Revision: revision, Compacted: 3, Sum: uint32(sum)})
	}
	return hashes
}

func with(hashes []Hash, edit func([]Hash)) []Hash {
	edit(hashes)
	return hashes
}

func TestWhoDiffers(t *testing.T) {
	for name, test := range map[string]struct {
		comparisons [][]Hash
		differs     []uint64
		disagree    bool
	}{
		"nothing was compared":                        {},
		"all are the same":                            {comparisons: [][]Hash{at(5, "aaa"), at(6, "bbb")}},
		"one differs once":                            {comparisons: [][]Hash{at(5, "aba")}},
		"one differs twice at one revision":           {comparisons: [][]Hash{at(5, "aba"), at(5, "aba")}},
		"one differs at two revisions":                {comparisons: [][]Hash{at(5, "aba"), at(6, "ccd")}},
		"the same one differs at two revisions":       {comparisons: [][]Hash{at(5, "aba"), at(6, "cdc")}, differs: []uint64{2}},
		"it differs again at a third":                 {comparisons: [][]Hash{at(5, "aba"), at(5, "aba"), at(6, "cdc")}, differs: []uint64{2}},
		"it does not differ any more":                 {comparisons: [][]Hash{at(5, "aba"), at(6, "cdc"), at(7, "eee")}},
		"it agreed in between":                        {comparisons: [][]Hash{at(5, "aba"), at(6, "ccc"), at(7, "efe")}},
		"it was silent in between":                    {comparisons: [][]Hash{at(5, "aba"), at(6, "c-c"), at(7, "efe")}, differs: []uint64{2}},
		"it is silent then":                           {comparisons: [][]Hash{at(5, "aba"), at(6, "c-c"), at(7, "e-e")}},
		"it differed twice, and is silent then":       {comparisons: [][]Hash{at(5, "aba"), at(6, "cdc"), at(7, "e-e")}, differs: []uint64{2}},
		"it differed twice, and is removed then":      {comparisons: [][]Hash{at(5, "aba"), at(6, "cdc"), with(at(7, "ee-"), func(h []Hash) { h[1].ID = 9 })}},
		"it is removed, and nothing is compared":      {comparisons: [][]Hash{at(5, "aba"), at(6, "cdc"), with(at(7, "e--"), func(h []Hash) { h[1].ID = 9 })}},
		"two of five differ":                          {comparisons: [][]Hash{at(5, "abaca"), at(6, "debdd")[:5], at(7, "abaca")}, differs: []uint64{2}},
		"two of three answer and are the same":        {comparisons: [][]Hash{at(5, "aa-"), at(6, "aa-")}},
		"two of three answer and differ":              {comparisons: [][]Hash{at(5, "ab-"), at(6, "ab-")}},
		"one of three answers":                        {comparisons: [][]Hash{at(5, "a--"), at(6, "b--")}},
		"two of five are the same, others are silent": {comparisons: [][]Hash{at(5, "aa---"), at(6, "aa---")}},
		"all three differ once":                       {comparisons: [][]Hash{at(5, "abc")}},
		"all three differ twice":                      {comparisons: [][]Hash{at(5, "abc"), at(6, "def")}, disagree: true},
		"all three differ twice at one revision":      {comparisons: [][]Hash{at(5, "abc"), at(5, "abc")}},
		"both of two differ":                          {comparisons: [][]Hash{at(5, "ab"), at(6, "cd")}, disagree: true},
		"two and two of four":                         {comparisons: [][]Hash{at(5, "aabb"), at(6, "aabb")}, disagree: true},
		"two and two of five, and one is silent":      {comparisons: [][]Hash{at(5, "aabb-"), at(6, "aabb-")}},
		"no majority, of which one is silent":         {comparisons: [][]Hash{at(5, "abcd-"), at(6, "abcd-")}, disagree: true},
		"a majority comes back":                       {comparisons: [][]Hash{at(5, "abc"), at(6, "abc"), at(7, "aba")}},
		"a majority comes back and stays":             {comparisons: [][]Hash{at(5, "abc"), at(6, "abc"), at(7, "aba"), at(8, "aba")}, differs: []uint64{2}},
		"the majority is lost after one has differed": {comparisons: [][]Hash{at(5, "aba"), at(6, "aba"), at(7, "abc")}},
		"it disagrees, and then too few answer":       {comparisons: [][]Hash{at(5, "abc"), at(6, "abc"), at(7, "a--")}, disagree: true},
		"one has another compaction": {comparisons: [][]Hash{
			with(at(5, "aba"), func(h []Hash) { h[1].Compacted = 4 }), with(at(6, "aba"), func(h []Hash) { h[1].Compacted = 4 })}},
		"one has another version": {comparisons: [][]Hash{
			with(at(5, "aba"), func(h []Hash) { h[0].Version = "3.5.30" }), with(at(6, "aba"), func(h []Hash) { h[0].Version = "3.5.30" })}},
		"one tells another revision": {comparisons: [][]Hash{
			with(at(5, "aba"), func(h []Hash) { h[1].Revision = 4 }), with(at(6, "aba"), func(h []Hash) { h[1].Revision = 4 })}},
		"one has compacted in between": {comparisons: [][]Hash{
			at(5, "aba"), with(at(6, "aba"), func(h []Hash) { h[1].Compacted = 4 }), at(7, "aba")}, differs: []uint64{2}},
		"a single one": {comparisons: [][]Hash{at(5, "a"), at(6, "b")}},
	} {
		t.Run(name, func(t *testing.T) {
			var memory Memory
			for _, hashes := range test.comparisons {
				memory = memory.After(hashes)
			}
			if differs := slices.Sorted(maps.Keys(memory.Differs)); !slices.Equal(differs, test.differs) || (len(memory.Disagree) > 0) != test.disagree {
				t.Errorf("%v differ, and they disagree: %v", differs, memory.Disagree)
			}
		})
	}
}

func TestAPersonDecidesByRemovingVoters(t *testing.T) {
	for sums, cases := range map[string]map[string]bool{
		"abc":   {"123": true, "13": true, "3": false, "": false},
		"aabbc": {"12345": true, "1235": true, "12": false, "34": false, "15": true},
		"abcd-": {"15": true, "1": false},
	} {
		memory := Memory{}.After(at(5, sums)).After(at(6, sums))
		for voters, want := range cases {
			var ids []uint64
			for _, id := range voters {
				ids = append(ids, uint64(id-'0'))
			}
			if got := memory.Undecided(ids); got != want {
				t.Errorf("of %s, with %q left, it is undecided: %t", sums, voters, got)
			}
		}
	}
	if (Memory{}).After(at(5, "abc")).Undecided([]uint64{1, 2, 3}) {
		t.Error("one comparison is enough")
	}
}

func TestWhatWasKnownBeforeStaysAsItWas(t *testing.T) {
	before := Memory{}.After(at(5, "aba")).After(at(6, "aba"))
	before.After(at(7, "ccc"))
	before.After(at(7, "c--"))
	if !before.Differs[2] {
		t.Error("a later comparison changed it")
	}
}
