package hashes

import (
	"maps"
	"slices"
)

// Hash is what one voter says of its data.
type Hash struct {
	// ID is what etcd lists the voter by.
	ID uint64
	// Answered is true when it told its hash; what follows is about that.
	Answered bool
	// Version is that of its etcd, Revision the last one that the hash has, Compacted the one before which it has no old versions
	// of keys.
	Version             string
	Revision, Compacted int64
	Sum                 uint32
}

// Memory is what comparisons have found so far. Its zero value is that of an etcd that was never compared.
type Memory struct {
	// Differs has the voters whose data is not that of the majority, by two comparisons.
	Differs map[uint64]bool
	// Disagree has the last hashes of the voters when no majority of them has the same data, by two comparisons. It is empty when a majority
	// has.
	Disagree []Hash

	// suspects have the revision at which a voter was first found to differ, and disagreed the one at which all were.
	suspects  map[uint64]int64
	disagreed int64
}

// After is what is known after another comparison, which has a hash of each voter.
func (m Memory) After(hashes []Hash) Memory {
	found := compare(hashes)
	next := Memory{Differs: map[uint64]bool{}, suspects: map[uint64]int64{}}
	switch {
	case found.none:
		next = Memory{Differs: maps.Clone(m.Differs), Disagree: m.Disagree, suspects: maps.Clone(m.suspects), disagreed: m.disagreed}
		gone := func(id uint64) bool { return !slices.ContainsFunc(hashes, func(h Hash) bool { return h.ID == id }) }
		maps.DeleteFunc(next.Differs, func(id uint64, _ bool) bool { return gone(id) })
		maps.DeleteFunc(next.suspects, func(id uint64, _ int64) bool { return gone(id) })
		return next
	case found.disagree:
		if next.disagreed = m.disagreed; next.disagreed == 0 {
			next.disagreed = found.revision
		}
		if next.disagreed != found.revision {
			next.Disagree = slices.Clone(hashes)
		}
		return next
	}
	for _, h := range hashes {
		since, suspect := m.suspects[h.ID]
		switch {
		case !h.Answered && suspect:
			next.suspects[h.ID] = since
		case !h.Answered || h.Sum == found.sum:
			continue
		case suspect:
			next.suspects[h.ID] = since
		default:
			next.suspects[h.ID], since = found.revision, found.revision
		}
		if m.Differs[h.ID] || h.Answered && since != found.revision {
			next.Differs[h.ID] = true
		}
	}
	return next
}

// Undecided reports whether voters with different data are left of those that disagree. A person decides: the data of the voters that are
// not removed is right.
func (m Memory) Undecided(voters []uint64) bool {
	left := slices.DeleteFunc(slices.Clone(m.Disagree), func(h Hash) bool { return !slices.Contains(voters, h.ID) })
	return len(left) > 1 && slices.ContainsFunc(left, func(h Hash) bool { return !h.Answered || h.Sum != left[0].Sum })
}

// comparison is what one comparison says: nothing, that no majority agrees, or which hash the majority has.
type comparison struct {
	none, disagree bool
	sum            uint32
	revision       int64
}

func compare(hashes []Hash) comparison {
	answered := slices.DeleteFunc(slices.Clone(hashes), func(h Hash) bool { return !h.Answered })
	if len(answered) < 2 {
		return comparison{none: true}
	}
	first, agree := answered[0], map[uint32]int{}
	for _, h := range answered {
		if h.Version != first.Version || h.Revision != first.Revision || h.Compacted != first.Compacted {
			return comparison{none: true}
		}
		agree[h.Sum]++
	}
	most := first.Sum
	for sum, count := range agree {
		if count > agree[most] {
			most = sum
		}
	}
	majority, silent := len(hashes)/2+1, len(hashes)-len(answered)
	switch {
	case agree[most] >= majority:
		return comparison{sum: most, revision: first.Revision}
	case agree[most]+silent >= majority:
		return comparison{none: true} // The members that did not answer may agree with the largest group.
	}
	return comparison{disagree: true, revision: first.Revision}
}
