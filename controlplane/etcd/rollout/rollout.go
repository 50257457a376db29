package rollout

import (
	"cmp"
	"fmt"
	"slices"
)

// Member is one that has, or shall have, a pod.
type Member struct {
	// Name is the member's and its pod's.
	Name string
	// Ordinal is its place among the cluster's pods.
	Ordinal int
	// Exists is true when there is a pod; what follows up to Lost is about that.
	Exists bool
	// Outdated is true for a pod that is not as its StatefulSet wants it now, or whose member shall start anew for another reason.
	Outdated bool
	// Ready is true for a pod that is available, Stopping for one that was deleted.
	Ready, Stopping bool
	// Host is the node that it runs on. Lost is true when the host cluster does not hear from that.
	Host string
	Lost bool
	// Cordoned is true when its node takes no new pods.
	Cordoned bool
	// Answers is true when the member itself answered, InQuorum when it also knows the leader, Leader when it
	// is that.
	Answers, InQuorum, Leader bool
}

// State is all that a decision depends on.
type State struct {
	// Members are the desired members.
	Members []Member
	// Unsettled is why no member that works may be stopped, whatever the pods are like, such as a change of
	// the members; empty for no such reason.
	Unsettled string
	// Volatile is true when the data of members goes with their pods, and they have data.
	Volatile bool
}

// Action is the next step; it is empty when every pod is up to date or will be by itself.
type Action struct {
	// Lead is the name of the member that takes the lead before the pod of the leader is deleted; empty for none.
	Lead string
	// Replace is the name of the member whose pod is deleted; empty for none, and while the lead moves.
	Replace string
	// Reason is what must happen first, for people; set only when there is something to replace and it cannot be now.
	Reason string
}

// Decide says what to do next.
func Decide(s State) Action {
	var outdated []Member
	for _, m := range s.Members {
		if m.Exists && m.Outdated && !m.Stopping {
			outdated = append(outdated, m)
		}
	}
	if len(outdated) == 0 {
		return Action{}
	}
	if s.Volatile {
		return Action{Reason: "members keep their data in their pods, and would lose it"}
	}
	free := slices.DeleteFunc(slices.Clone(outdated), Member.stays)
	if len(free) == 0 {
		m := slices.MinFunc(outdated, before)
		return Action{Reason: fmt.Sprintf("member %s is on host node %s, which is cordoned, and its new pod might not start: uncordon the host node", m.Name, m.Host)}
	}
	next := slices.MinFunc(free, before)
	if reason := s.blocks(next); reason != "" {
		return Action{Reason: reason}
	}
	if successor := s.successor(next); successor != "" {
		return Action{Lead: successor}
	}
	return Action{Replace: next.Name}
}

// successor is the member that takes the lead from next; empty if next does not lead, or is the only member. No other member is faulty when
// next leads and may go. A leader that stops loses what other members forward to it at that moment, and their writers wait in vain for
// seconds.
func (s State) successor(next Member) string {
	others := slices.DeleteFunc(slices.Clone(s.Members), func(m Member) bool { return m.Name == next.Name })
	if !next.Leader || !next.InQuorum || len(others) == 0 {
		return ""
	}
	soonGone := func(m Member) int {
		switch {
		case m.Cordoned:
			return 2
		case m.Outdated:
			return 1
		}
		return 0
	}
	return slices.MinFunc(others, func(a, b Member) int {
		return cmp.Or(cmp.Compare(soonGone(a), soonGone(b)), cmp.Compare(a.Ordinal, b.Ordinal))
	}).Name
}

// before is the order in which members go: those that do not work, then those that are not ready, the
// leader last; else from the last to the first.
func before(a, b Member) int {
	rank := func(m Member) int {
		switch {
		case m.broken():
			return 0
		case !m.Ready && !m.Lost:
			return 1
		case !m.Leader:
			return 2
		}
		return 3
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Ordinal, a.Ordinal))
}

// broken reports whether a member certainly does not run: its host says that it is not ready, and it does
// not answer either. One that only has lost the others answers.
func (m Member) broken() bool { return !m.Ready && !m.Answers && !m.Lost }

// stays reports whether a member is left as it is, because it works, and its pod may be unable to start again: its volume, or the place that
// others have, may tie it to a node that takes no pods.
func (m Member) stays() bool { return m.Cordoned && !m.Lost && !m.broken() }

// blocks says why a member cannot be stopped now; empty when it can.
func (s State) blocks(next Member) string {
	if next.broken() {
		for _, m := range s.Members {
			if m.Name != next.Name && m.Stopping && !m.Lost {
				return m.faulty()
			}
		}
		return ""
	}
	if s.Unsettled != "" {
		return s.Unsettled
	}
	for _, m := range s.Members {
		if faulty := m.faulty(); faulty != "" && (m.Name != next.Name || m.Lost) {
			return faulty
		}
	}
	if len(s.Members) == 2 {
		return "one of two members would be no quorum: the rollout goes on when there are at least three members, or only one"
	}
	return ""
}

// faulty says why a member cannot be counted on; empty when it can.
func (m Member) faulty() string {
	switch {
	case !m.Exists:
		return fmt.Sprintf("member %s has no pod yet", m.Name)
	case m.Lost:
		return fmt.Sprintf("the host cluster does not hear from %s, where member %s is", m.Host, m.Name)
	case m.Stopping:
		return fmt.Sprintf("member %s is stopping", m.Name)
	case !m.Ready:
		return fmt.Sprintf("member %s is not ready", m.Name)
	case !m.Answers:
		return fmt.Sprintf("member %s does not answer", m.Name)
	case !m.InQuorum:
		return fmt.Sprintf("member %s knows no leader", m.Name)
	}
	return ""
}
