package rebuild

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Ask is what a new etcd begins with: one of both.
type Ask struct {
	// Survivor is the member with whose data it begins.
	Survivor string `json:"survivor,omitempty"`
	// Snapshot is the name of the KOKEtcdSnapshot that it begins with.
	Snapshot string `json:"snapshot,omitempty"`
}

// Former is what is known of the data of a former member.
type Former struct {
	Name string
	// Votes is true for one that counts for the quorum.
	Votes bool
	// Lost is true when its data are proven to be gone. Reached is true when its pod is there, on a host node that is heard from, and it is
	// known whether it has data. Ready is true when that pod is ready, which takes a quorum.
	Lost, Reached, Ready bool
	// LogTerm and LogIndex are of the last entry of its log; zero where they are not known.
	LogTerm, LogIndex uint64
}

// automaticPause is how long after a restore no other one begins by itself: what made members lose their data may go on.
const automaticPause = time.Hour

// Choose says with what etcd is founded anew without a person. snapshot is the newest verified one; empty for none, and where none may be
// taken. volatile is true where data go with pods, so that no member survives. If a person is needed, reason says why. Both are empty while
// there is a quorum, or so many have their data that one can return. A learner may lack most of the data, and never survives.
func Choose(members []Former, snapshot string, volatile bool) (ask Ask, reason string) {
	left, lost := lostQuorum(members)
	switch {
	case !lost:
		return Ask{}, ""
	case len(left) > 0 && !volatile:
		return survivor(left)
	case snapshot == "":
		return Ask{}, "no member is left, and there is no verified snapshot that may be taken"
	}
	return Ask{Snapshot: snapshot}, ""
}

// ChooseEmpty decides whether the controller founds an etcd anew by itself. The new etcd is empty, because nobody needs the former data.
// If a person has to decide, reason says why: the host cluster does not hear from a member that may have its data, so that this member may
// still run.
func ChooseEmpty(members []Former) (founds bool, reason string) {
	left, lost := lostQuorum(members)
	if !lost {
		return false, ""
	}
	if silent := silent(left); len(silent) > 0 {
		return false, fmt.Sprintf("members %s may have their data, and are not heard from: bring their host nodes back, or have the etcd founded anew by spec.etcd.events.foundAnewAt if they are gone for good", strings.Join(silent, ", "))
	}
	return true, ""
}

// lostQuorum reports whether no quorum can return, as far as that is proven, and which voters may have their data. A host node that is off or
// cut off proves nothing.
func lostQuorum(members []Former) (left []Former, lost bool) {
	voters := slices.DeleteFunc(slices.Clone(members), func(m Former) bool { return !m.Votes })
	left = slices.DeleteFunc(slices.Clone(voters), func(m Former) bool { return m.Lost })
	works := slices.ContainsFunc(members, func(m Former) bool { return m.Ready })
	return left, !works && len(voters) > 0 && !majority(len(left), len(voters))
}

// silent are the names of members that are not heard from.
func silent(members []Former) (names []string) {
	for _, m := range members {
		if !m.Reached {
			names = append(names, m.Name)
		}
	}
	return names
}

// survivor is the member whose log goes on the furthest: it has every acknowledged write that any of them has.
func survivor(left []Former) (ask Ask, reason string) {
	var untold []string
	silent, furthest := silent(left), left[0]
	for _, m := range left {
		if m.LogIndex == 0 {
			untold = append(untold, m.Name)
		}
		if cmp.Or(cmp.Compare(m.LogTerm, furthest.LogTerm), cmp.Compare(m.LogIndex, furthest.LogIndex)) > 0 {
			furthest = m
		}
	}
	switch {
	case len(silent) > 0:
		return Ask{}, fmt.Sprintf("members %s may have their data, and are not heard from: bring their host nodes back, or restore by spec.etcd.restore with spec.etcd.givenUp if they are gone for good", strings.Join(silent, ", "))
	case len(left) > 1 && len(untold) > 0:
		return Ask{}, fmt.Sprintf("it is not known where the logs of members %s end, so that nobody can tell which one has all writes: members tell it where spec.etcd.backup is set; else choose one by spec.etcd.restore.survivor", strings.Join(untold, ", "))
	}
	return Ask{Survivor: furthest.Name}, ""
}

// PausedUntil is when etcd may be founded anew by itself after the last time, which is a stamp; zero if it may now. A time that is empty or
// cannot be read pauses nothing.
func PausedUntil(last string, now time.Time) time.Time {
	at, err := time.Parse(time.RFC3339, last)
	if err != nil || !at.Add(automaticPause).After(now) {
		return time.Time{}
	}
	return at.Add(automaticPause)
}

// Candidate is a snapshot that may be restored.
type Candidate struct {
	Snapshot string
	// Shared is true where all members read the same store, so that what one of them cannot begin with none can. Otherwise Members are those
	// that keep it on volumes of their own, and can begin now.
	Shared  bool
	Members []string
}

// Tries are the beginnings with snapshots, of which that of the record is the last.
func (r Record) Tries() []Try {
	if r.Begins == nil || r.Begins.Snapshot == "" {
		return r.Tried
	}
	return append(slices.Clone(r.Tried), Try{Snapshot: r.Begins.Snapshot, Member: r.Seed})
}

// Another says with what etcd goes on by itself when its first member cannot begin with the snapshot of the record: with the first candidate
// that was not tried. member is the one that begins; empty for any. ask is empty if all were tried.
func (r Record) Another(candidates []Candidate) (ask Ask, member string) {
	tries := r.Tries()
	for _, c := range candidates {
		if c.Shared && !slices.ContainsFunc(tries, func(t Try) bool { return t.Snapshot == c.Snapshot }) {
			return Ask{Snapshot: c.Snapshot}, ""
		}
		for _, name := range c.Members {
			if !c.Shared && !slices.Contains(tries, Try{Snapshot: c.Snapshot, Member: name}) {
				return Ask{Snapshot: c.Snapshot}, name
			}
		}
	}
	return Ask{}, ""
}

// CannotBegin tells people that the seed cannot begin with a snapshot, what else was tried, and the way out.
func (r Record) CannotBegin(why string) string {
	others := ""
	if len(r.Tried) > 0 {
		tried := make([]string, 0, len(r.Tried))
		for _, t := range r.Tried {
			tried = append(tried, t.Snapshot+" at "+t.Member)
		}
		others = " (before it failed with " + strings.Join(tried, ", ") + ")"
	}
	return fmt.Sprintf("member %s cannot begin with the KOKEtcdSnapshot %s%s: %s. Name another snapshot in spec.etcd.restore, with the present time as requestedAt",
		r.Seed, r.Begins.Snapshot, others, strings.TrimSuffix(why, "."))
}

// NextRequest is the request of a restore that follows the one of the record now. It is later, even within the same second.
func (r Record) NextRequest(now time.Time) string {
	if last, err := time.Parse(time.RFC3339, r.Restore); err == nil && now.Before(last.Add(time.Second)) {
		now = last.Add(time.Second)
	}
	return Stamp(now)
}
