package lead

import (
	"cmp"
	"slices"
	"time"
)

// Member is a member of an etcd cluster, with its pod.
type Member struct {
	// Name is the member's and its pod's.
	Name string
	// Ordinal is its place among the cluster's pods.
	Ordinal int
	// Voter is true when it votes, Leader when it leads.
	Voter, Leader bool
	// InQuorum is true when it answered, reports no error, and knows the leader.
	InQuorum bool
	// Ready is true for a pod that is ready, Stopping for one that was deleted.
	Ready, Stopping bool
	// Cordoned is true when the node of the pod takes no new pods.
	Cordoned bool
	// Created is when the pod was created, to the second.
	Created time.Time
}

// State is all that a decision depends on.
type State struct {
	// Members are those that etcd lists.
	Members []Member
	// Changing is why the lead must stay where it is, such as a change of the members; empty for no such reason.
	Changing string
}

// Action is the next step; it is empty when the lead is where it may be.
type Action struct {
	// To is the name of the member that shall lead; empty for none.
	To string
	// Reason is why the lead stays on a cordoned node, for people.
	Reason string
}

// Decide says what to do next.
func Decide(s State) Action {
	leads := slices.IndexFunc(s.Members, func(m Member) bool { return m.Leader })
	// A leader that stops hands over by itself.
	if leads < 0 || !s.Members[leads].Cordoned || s.Members[leads].Stopping || s.Alone() {
		return Action{}
	}
	if s.Changing != "" {
		return Action{Reason: s.Changing}
	}
	var able []Member
	for _, m := range s.Members {
		if m.Voter && m.InQuorum && m.Ready && !m.Stopping && !m.Cordoned && !m.Leader {
			able = append(able, m)
		}
	}
	if len(able) == 0 {
		return Action{Reason: "no other member that works is on a node that takes pods"}
	}
	return Action{To: slices.MinFunc(able, youngest).Name}
}

// youngest puts the member first whose pod was created last. When nodes are drained one by one, that pod is on a node that was
// drained before, and will not be drained again: the lead need not move once more.
func youngest(a, b Member) int {
	return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.Ordinal, b.Ordinal))
}

// Alone reports whether there is only one voter, which can give its lead to nobody.
func (s State) Alone() bool {
	voters := 0
	for _, m := range s.Members {
		if m.Voter {
			voters++
		}
	}
	return voters == 1
}
