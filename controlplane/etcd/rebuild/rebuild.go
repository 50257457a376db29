package rebuild

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is what is done next.
type Kind string

// Kinds of actions. Each is safe to do twice.
const (
	// None: no restore is asked for, or it is over.
	None Kind = ""
	// Refuse: it cannot begin, and the reason says what a person does. The control plane goes on as it was.
	Refuse Kind = "Refuse"
	// Wait: something must happen first, which the reason names.
	Wait Kind = "Wait"
	// Write stores Action.Record.
	Write Kind = "Write"
	// Stop deletes the workloads and pods that use the data.
	Stop Kind = "Stop"
)

// Action is one step.
type Action struct {
	Kind Kind
	// Record is set for Write alone.
	Record Record
	// Reason is what is waited for, or what is wrong, for people.
	Reason string
}

// Decide says what to do next.
func Decide(s State) Action {
	switch {
	case s.answered(): // Whatever is asked for by now: until this restore is over, API servers do not start.
		return s.finish()
	case s.Request == "" && s.Record.UnderWay():
		return Action{Kind: Wait, Reason: fmt.Sprintf("the restore of %s is under way, and spec.etcd.restore was taken away: set it again, with that time or a later one as requestedAt", s.Record.Restore)}
	case !s.Asked():
		return Action{}
	case s.Record.Restore != s.Request:
		return s.begin()
	case s.Record.Phase == Stopping:
		return s.stop()
	}
	return s.found()
}

// begin judges the request, and begins with it.
func (s State) begin() Action {
	if reason := s.refusal(); reason != "" {
		return Action{Kind: Refuse, Reason: reason}
	}
	if s.Unknown != "" {
		return Action{Kind: Wait, Reason: s.Unknown}
	}
	next := s.Next
	next.Restore, next.Phase = s.Request, Stopping
	next.Former = union(s.Record.Former, s.Next.Former, s.Record.ClusterID, s.ClusterID)
	next.Members, next.Voters = s.FormerMembers()
	if s.Record.Phase == Founding {
		next.Tried = s.Record.Tries()
	}
	return Action{Kind: Write, Record: next}
}

// refusal is why a restore must not begin: it would stop the control plane and then wait.
func (s State) refusal() string {
	if s.Request < s.Record.Restore { // Times in UTC, which sort as texts. Webhooks cannot know it of an object that is made anew.
		return fmt.Sprintf("requestedAt is %s, before the last restore, of %s, and what was written since would be lost: remove spec.etcd.restore, or set requestedAt to the present time", s.Request, s.Record.Restore)
	}
	if s.Problem != "" {
		return s.Problem
	}
	if unreachable := s.unreachable(); len(unreachable) > 0 {
		return fmt.Sprintf("host nodes %s are not heard from, and pods %s may run there: bring the host nodes back, or name their members in spec.etcd.givenUp if they are gone for good",
			hosts(unreachable), names(unreachable))
	}
	members, voters := s.FormerMembers()
	unknown := slices.DeleteFunc(slices.Clone(members), func(m Member) bool {
		return slices.ContainsFunc(s.Pods, func(p Pod) bool { return p.Name == m.Name }) // It can be stopped.
	})
	if away := s.MayRun(unknown); majority(len(away), voters) {
		return s.nameGivenUp(away)
	}
	return ""
}

// stop waits until everything has stopped that knows the former data.
func (s State) stop() Action {
	if unreachable := s.unreachable(); len(unreachable) > 0 {
		return Action{Kind: Wait, Reason: fmt.Sprintf("pods %s stop when host nodes %s are heard from: bring them back, or name their members in spec.etcd.givenUp if they are gone for good",
			names(unreachable), hosts(unreachable))}
	}
	if running := s.reachable(); len(running) > 0 {
		return Action{Kind: Stop, Reason: "pods have yet to stop: " + names(running)}
	}
	if away := s.MayRun(s.Record.Members); majority(len(away), s.Record.Voters) {
		return Action{Kind: Wait, Reason: s.nameGivenUp(away)}
	}
	next := s.Record
	next.Phase = Founding
	return Action{Kind: Write, Record: next}
}

// reachable are the pods that can be stopped.
func (s State) reachable() []Pod {
	return slices.DeleteFunc(slices.Clone(s.Pods), func(p Pod) bool {
		_, heard := s.Heard[p.Host]
		return p.Host != "" && !heard
	})
}

// found waits until the seed answers.
func (s State) found() Action {
	if s.Refusal != "" {
		return Action{Kind: Wait, Reason: s.Refusal}
	}
	reason := fmt.Sprintf("member %s has yet to answer as the first one of the new etcd", s.Record.Seed)
	if s.Record.FromSurvivor() {
		reason += ", with its own data. If it cannot begin with them, name another survivor or a snapshot in spec.etcd.restore, with the present time as requestedAt"
	}
	return Action{Kind: Wait, Reason: reason}
}

// answered reports whether the seed has answered as a member of the new etcd, and that is not recorded.
func (s State) answered() bool {
	return s.Record.Phase == Founding && s.ClusterID == s.Record.ClusterID
}

// finish ends the restore of the record.
func (s State) finish() Action {
	next := s.Record
	next.Phase = Over
	return Action{Kind: Write, Record: next}
}

func (s State) nameGivenUp(away []string) string {
	return fmt.Sprintf("members %s may run on host nodes that are not heard from, and are a majority: bring the host nodes back, or name in spec.etcd.givenUp the members whose host nodes are gone for good",
		strings.Join(away, ", "))
}

// union are the IDs of lists and single ones, without empty ones, each once.
func union(a, b []string, more ...string) []string {
	all := slices.Concat(a, b, more)
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(id string) bool { return id == "" })
}
