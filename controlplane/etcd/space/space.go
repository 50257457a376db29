package space

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Kind is what is done next.
type Kind string

// Kinds of actions. Each is safe to do twice.
const (
	// None: it takes writes.
	None Kind = ""
	// Wait: something must happen first; the reason says what.
	Wait Kind = "Wait"
	// NeedsDecision: a person must act; the reason says how.
	NeedsDecision Kind = "NeedsDecision"
	// Compact drops all versions of keys but the newest. Their pages are free then, and stay in the file.
	Compact Kind = "Compact"
	// Defragment writes a member's file anew without its free pages. The member answers nobody meanwhile.
	Defragment Kind = "Defragment"
	// Disarm ends the alarm, so that etcd takes writes.
	Disarm Kind = "Disarm"
)

// Action is one step.
type Action struct {
	Kind Kind
	// Member is whose file is written anew; empty for other kinds.
	Member string
	// Reason is why, for people; empty for None alone.
	Reason string
}

// Member is a member that etcd lists.
type Member struct {
	// Name is the member's.
	Name string
	// Ordinal is its place among the cluster's pods.
	Ordinal int
	// Started is true once it ran. Works is true when it answers, and follows the leader or leads. Leader is true for the one
	// that leads.
	Started, Works, Leader bool
	// Size is that of its database's file, InUse what is no free page of it, Quota what the file may become, in bytes.
	Size, InUse, Quota int64
	// Volume is the size of its volume in bytes; zero when that is not known.
	Volume int64
	// Rewritten is true when its file was written anew since old versions were dropped, or often enough: InUse is true then. What a
	// compaction freed counts as in use until etcd has written some more, which one without a client does not.
	Rewritten bool
}

// State is all that a decision depends on.
type State struct {
	// Full is true when etcd has the alarm NOSPACE.
	Full bool
	// CompactedAt is the revision of an etcd that has no version of a key but the newest; 0 for one that has.
	CompactedAt int64
	// Members are those that etcd lists.
	Members []Member
	// Quota names the field that has the quota, for people.
	Quota string
}

const (
	// enough is the part of the quota, in per cent, below which a file has room again.
	enough = 90
	// Besides is what a volume has beside the database, in bytes: etcd's log and its snapshots.
	Besides = 512 << 20
	// mostLive is what a member writes anew, in bytes, before kubelet gives it up: /livez waits for the end of a defragmentation,
	// and kubelet for 8 answers of 15 seconds each. A slow disk takes 35 MiB a second; 90 were measured (room_envtest_test.go).
	mostLive = 4 << 30
)

// Decide says what to do next.
func Decide(s State) Action {
	if !s.Full {
		return Action{}
	}
	for _, m := range s.Members {
		if !m.Works && m.Started {
			return Action{Kind: Wait, Reason: fmt.Sprintf("it is full, and gets room when member %s works", m.Name)}
		}
	}
	large := slices.DeleteFunc(slices.Clone(s.Members), func(m Member) bool { return !m.Started || m.hasRoom() })
	if len(large) == 0 {
		return Action{Kind: Disarm, Reason: "it has room"}
	}
	helped := slices.DeleteFunc(slices.Clone(large), func(m Member) bool { return !m.wouldHaveRoom() })
	if len(helped) > 0 {
		return s.defragment(slices.MinFunc(helped, leaderLast))
	}
	// Deletions go on in a full etcd: old versions are dropped only where that must help.
	m := slices.MinFunc(large, leaderLast)
	if s.compacted() {
		if doubtful := slices.DeleteFunc(slices.Clone(large), func(m Member) bool { return m.Rewritten }); len(doubtful) > 0 {
			return s.defragment(slices.MinFunc(doubtful, leaderLast))
		}
		return Action{Kind: NeedsDecision, Reason: fmt.Sprintf("it is full of data in use, %s of %s in member %s: delete objects, or raise %s",
			size(m.InUse), size(m.Quota), m.Name, s.Quota)}
	}
	return Action{Kind: Compact, Reason: "it is full"}
}

// defragment has the file of a member written anew, for which there must be time, and its volume must have room.
func (s State) defragment(m Member) Action {
	switch {
	case m.InUse > mostLive && !s.compacted():
		return Action{Kind: Compact, Reason: "it is full"}
	case m.InUse > mostLive:
		return Action{Kind: NeedsDecision, Reason: fmt.Sprintf("it is full, and to write the %s in use of member %s anew may take longer than kubelet waits for an answer: delete objects, or raise %s",
			size(m.InUse), m.Name, s.Quota)}
	}
	if m.Volume > 0 && m.Volume < m.Size+m.InUse+Besides {
		return Action{Kind: NeedsDecision, Reason: fmt.Sprintf("it is full, and the volume of member %s, of %s, has no room to write its database of %s anew: make the volume larger",
			m.Name, size(m.Volume), size(m.InUse))}
	}
	return Action{Kind: Defragment, Member: m.Name, Reason: "it is full"}
}

func (s State) compacted() bool { return s.CompactedAt > 0 }

func (m Member) hasRoom() bool       { return m.Size < m.Quota/100*enough }
func (m Member) wouldHaveRoom() bool { return m.InUse < m.Quota/100*enough }

// leaderLast is the order in which members are defragmented.
func leaderLast(a, b Member) int {
	if a.Leader != b.Leader {
		if a.Leader {
			return 1
		}
		return -1
	}
	return cmp.Compare(a.Ordinal, b.Ordinal)
}

// size is a number of bytes for people.
func size(bytes int64) string {
	const mebi = 1 << 20
	return strings.TrimSpace(resource.NewQuantity((bytes+mebi-1)/mebi*mebi, resource.BinarySI).String())
}
