package recovery

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Kind is what is done next.
type Kind string

// Kinds of actions. Each is safe to do twice, and late: it is about one etcd ID or one UID, as the state had it, and what is
// left of a member is deleted only while etcd still does not list it.
const (
	// None: nothing is to be recovered.
	None Kind = ""
	// Wait: something must happen first, which may happen by itself; the reason says what.
	Wait Kind = "Wait"
	// NeedsDecision: a person must act; the reason says how.
	NeedsDecision Kind = "NeedsDecision"
	// Begin writes the record of a replacement: the member's ID, the UID of its volume, the time, and Try.
	Begin Kind = "Begin"
	// MoveLeader lets the member lead, because the leader is about to be removed.
	MoveLeader Kind = "MoveLeader"
	// Remove removes a member from etcd's list.
	Remove Kind = "Remove"
	// DeleteClaim deletes the volume of a member that was removed.
	DeleteClaim Kind = "DeleteClaim"
	// DeletePod deletes a pod. Its StatefulSet makes it anew.
	DeletePod Kind = "DeletePod"
)

// Action is one step.
type Action struct {
	Kind Kind
	// Ordinal is whom it is about.
	Ordinal int
	// Try is the number of the replacement; set for Begin alone.
	Try int
	// Reason is why, for people; empty for None alone.
	Reason string
}

// isStep reports whether an action does something.
func (a Action) isStep() bool { return a.Kind != None && a.Kind != Wait && a.Kind != NeedsDecision }

const (
	// maxTries is how often a member is replaced before a person is asked. Between two tries there is tryPatience, which
	// a new member has to join. Tries are counted for triesCount.
	maxTries    = 2
	tryPatience = 15 * time.Minute
	triesCount  = 24 * time.Hour
	// maxFailedStarts is how often etcd fails to start before its data is given up.
	maxFailedStarts = 5
	// cordonPatience is how long a host node is serviced before its member is replaced.
	cordonPatience = 10 * time.Minute
	// pendingPatience is how long a pod waits for the volume that was deleted, before it is deleted too.
	pendingPatience = time.Minute
	// minVoters is how many voters there must be to remove one: two copies of the data stay.
	minVoters = 3
	// maxBehind is how many entries of the log each other member may still have to apply when a working member goes. etcd itself asks for
	// less: it lets a learner vote once it has nine tenths of the log.
	maxBehind = 1000
)

// Decide says what to do next: the first step that can be taken, or else the first reason why none can.
func Decide(s State) Action {
	if !s.quorum() {
		return s.waitForQuorum()
	}
	if s.Disagree {
		return s.noMajority()
	}
	var says Action
	for _, decide := range []func(Member) Action{s.mend, s.finish, s.vacate, s.look} {
		for _, m := range s.Members {
			next := decide(m)
			if next.isStep() {
				return next
			}
			says = cmp.Or(says, next)
		}
	}
	return says
}

// DecideUnanswered is Decide for an etcd of which no member answers. The way there may be broken, so that nobody is said to be lost.
// Where kubelets saw too many without data no way brings a quorum back, and a person is asked.
func DecideUnanswered(s State) Action {
	if says := s.waitForQuorum(); says.Kind == NeedsDecision {
		return says
	}
	return Action{}
}

// mend replaces a voter that is of no use to the others.
func (s State) mend(m Member) Action {
	why := s.lost(m)
	if why == "" || m.works() && !m.Differs {
		return Action{}
	}
	return s.replace(m, why)
}

// finish takes away what is left of a member that was removed. A learner that does not join in time is replaced too.
func (s State) finish(m Member) Action {
	switch {
	case !s.unfinished(m) || s.beginsOnFormer(m):
		return Action{}
	case m.ID == 0 && !s.begun(m) && len(s.voters()) == 1 && s.volume(m) != "" && m.Data != Empty:
		return needsDecision("%s: etcd lists one member alone, which a person may have restored, and this one has a volume of before. Delete its volume claim and its pod if nobody needs that any more", m.at())
	case m.ID == 0 && !s.begun(m):
		return s.replace(m, "etcd does not list it")
	case m.ID == 0 && s.keepsOld(m) || s.hangs(m):
		return s.clear(m)
	case s.cameEarly(m):
		return Action{Kind: DeletePod, Ordinal: m.Ordinal, Reason: m.is("etcd failed in its pod before it could join, and kubelet waits before the next try")}
	case m.Learner && m.Claim.Former && m.Data == NoSpace:
		return needsDecision("%s: its volume has no room beside the data from before the restore. Make room there, or delete its volume claim and its pod if nobody needs the former data", m.at())
	case m.Learner && s.late(m):
		return s.replace(m, "it has not joined")
	}
	return Action{}
}

// vacate replaces a voter that works and cannot stay on its host node, when no other member is on its way.
func (s State) vacate(m Member) Action {
	why := s.lost(m)
	if why == "" || slices.ContainsFunc(s.Members, s.unfinished) {
		return Action{}
	}
	return s.replace(m, why)
}

// replace has a member removed, in steps.
func (s State) replace(m Member, why string) Action {
	if hinders := cmp.Or(s.risk(m, why), s.noRoom(m, why), s.lastSnapshots(m, why), s.tooOften(m, why)); hinders.Kind != None {
		return hinders
	}
	switch {
	case !s.begun(m):
		return Action{Kind: Begin, Ordinal: m.Ordinal, Try: s.triedBefore(m) + 1, Reason: m.is(why)}
	case m.Leader:
		return Action{Kind: MoveLeader, Ordinal: s.heir(m).Ordinal, Reason: m.is(why)}
	}
	return Action{Kind: Remove, Ordinal: m.Ordinal, Reason: m.is(why)}
}

// clear deletes a volume and the pod that has it, or hangs without it.
func (s State) clear(m Member) Action {
	const why = "what is left of it must go before it can join again"
	if sick := s.sick(m); sick != nil {
		return wait("%s. It waits for %s, which does not work", m.is(why), sick.at())
	}
	switch {
	case s.keepsOld(m) && !s.Volatile && !m.Claim.Stopping:
		return Action{Kind: DeleteClaim, Ordinal: m.Ordinal, Reason: m.is(why)}
	case m.Pod.UID != "" && !m.Pod.Stopping:
		return Action{Kind: DeletePod, Ordinal: m.Ordinal, Reason: m.is(why)}
	case m.Host.silent():
		return wait("%s. Its pod stops when host node %s is heard from: bring that back, or delete its Node object if it is gone for good", m.is(why), m.Host.Name)
	}
	return wait("%s. Its pod is stopping", m.is(why))
}

// cameEarly reports whether a learner has yet to start in a pod that came before it could join. One whose data would go with the pod may have
// started since, unseen, and so may one on a host node that is not heard from.
func (s State) cameEarly(m Member) bool {
	return m.Learner && !m.Started && m.Pod.Early && !m.Pod.Stopping && !m.Host.silent() && !s.Volatile && s.sick(m) == nil
}

// late reports whether a learner cannot join as it is, and had its time: a host node or a volume may take minutes to come. One on a
// host node that is not heard from may join.
func (s State) late(m Member) bool {
	if m.Host.silent() || s.within(m.Last.Begun, tryPatience) && m.Last.Of != m.ID {
		return false
	}
	patience := tryPatience
	if s.leaves(m) != "" {
		patience = pendingPatience
	}
	return m.Pod.FailedStarts >= maxFailedStarts || s.since(m.Pod.PendingSince, patience)
}

// hangs reports whether a pod waits for a volume that was deleted.
func (s State) hangs(m Member) bool {
	return s.pending(m) && !s.Volatile && !m.Started && (m.Claim.UID == "" || m.Claim.Stopping)
}

func (s State) pending(m Member) bool { return s.since(m.Pod.PendingSince, pendingPatience) }

// quorum reports whether etcd lists its members, and a majority of the voters answers.
func (s State) quorum() bool {
	voters := s.voters()
	healthy := 0
	for _, m := range voters {
		if m.Healthy {
			healthy++
		}
	}
	return len(voters) > 0 && healthy > len(voters)/2
}

// heir is who leads instead of a member: the first voter that works, with the data of the majority and on a host node that takes
// pods if there is one.
func (s State) heir(leader Member) Member {
	able := slices.DeleteFunc(s.voters(), func(m Member) bool { return !m.works() || m.Ordinal == leader.Ordinal })
	if same := slices.DeleteFunc(slices.Clone(able), func(m Member) bool { return m.Differs }); len(same) > 0 {
		able = same
	}
	if open := slices.IndexFunc(able, func(m Member) bool { return m.Host.open() }); open >= 0 {
		return able[open]
	}
	return able[0]
}

// sick is a voter that does not work, besides one; nil for none.
func (s State) sick(besides Member) *Member {
	for _, m := range s.voters() {
		if !m.works() && m.Ordinal != besides.Ordinal {
			return &m
		}
	}
	return nil
}

// triedBefore is how many replacements of a member failed in a row. A learner never voted, so the replacement before it failed.
// That one does not count when the member must leave its host node.
func (s State) triedBefore(m Member) int {
	switch {
	case m.ID != 0 && m.Last.Of == m.ID:
		return m.Last.Try - 1
	case s.leaves(m) == "" && (m.Learner || s.within(m.Last.Begun, triesCount)):
		return m.Last.Try
	}
	return 0
}

func wait(format string, args ...any) Action {
	return Action{Kind: Wait, Reason: fmt.Sprintf(format, args...)}
}

func needsDecision(format string, args ...any) Action {
	return Action{Kind: NeedsDecision, Reason: fmt.Sprintf(format, args...)}
}

// at names a member and its host node.
func (m Member) at() string {
	if m.Host.Name == "" {
		return "member " + m.Name
	}
	return fmt.Sprintf("member %s on host node %s", m.Name, m.Host.Name)
}

// is says something of a member.
func (m Member) is(what string) string { return m.at() + ": " + what }
