package membership

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/byhand"
)

// Member is a member that etcd lists.
type Member struct {
	// Name is the member's name, or that of its address while it has not started.
	Name string
	// ID is what etcd lists it by.
	ID uint64
	// Ordinal is its place among the cluster's pods; negative for an unknown member, which is not expected.
	Ordinal int
	// Started is true once it ran. Learner is true while it does not vote. Leader is true for the one
	// that leads. Healthy is true when it answered and reports no error.
	Started, Learner, Leader, Healthy bool
	// Differs is true when its data is not that of the majority.
	Differs bool
}

// State is all that a decision depends on. Of pods, volumes and files it has the ordinals.
type State struct {
	// Name is what the cluster's pods are called before "-" and their ordinal.
	Name string
	// Desired is the number of members that the spec asks for, Hosts the number of nodes that they can run on.
	Desired, Hosts int
	// Members are those that etcd lists.
	Members []Member
	// Disagree is true when no majority of the voters has the same data.
	Disagree bool
	// Pods exist, whatever their state. Claims are volumes that exist.
	Pods, Claims []int
	// Former are the ordinals of the volumes from before a restore in place. A member that is added again begins on its volume.
	Former []int
	// Blank are members that are not listed and whose pods and claims are new: they wait to be added. Package recovery
	// tells them.
	Blank []int
	// BlankUnknown is true when package recovery could not tell them, for what they depend on could not be read.
	BlankUnknown bool
	// Stuck are the pods that cannot stop, because the host cluster does not hear from their host nodes. Each has the name of its host node.
	// Etcd lists none of their members.
	Stuck map[int]string
	// Open are members whose configuration file lets them start without data, or is not there.
	Open []int
	// Used are members that running API servers name.
	Used []int
	// ByHand has the commands by which a person removes a member.
	ByHand byhand.Etcdctl
}

// Kind is what is done next.
type Kind string

// Kinds of actions. Each is safe to do twice.
const (
	// None: the members are as desired, and nothing is left of others.
	None Kind = ""
	// Wait: something must happen first; the reason says what.
	Wait Kind = "Wait"
	// AddLearner adds a member that does not vote yet. Its pod starts when etcd lists it.
	AddLearner Kind = "AddLearner"
	// Promote lets a learner vote.
	Promote Kind = "Promote"
	// MoveLeader lets the member lead, because the leader is about to go.
	MoveLeader Kind = "MoveLeader"
	// Remove removes a member. Its pod stops when etcd lists it no more.
	Remove Kind = "Remove"
	// DeleteClaim deletes the volume of a member that was removed.
	DeleteClaim Kind = "DeleteClaim"
)

// Action is one step.
type Action struct {
	Kind Kind
	// Ordinal is whom it is about.
	Ordinal int
	// Reason is why nothing can be done now, for people; set for Wait alone.
	Reason string
}

// Decide says what to do next.
func Decide(s State) Action {
	if len(s.Members) == 0 {
		return wait("etcd does not tell its members")
	}
	for _, member := range s.Members {
		if member.Ordinal < 0 {
			return wait("etcd lists the member %q (%x), which is not of this control plane. To remove it, %s", member.Name, member.ID, s.ByHand.Remove(member.Name, member.ID))
		}
	}
	if i := slices.IndexFunc(s.Members, func(m Member) bool { return m.Learner }); i >= 0 {
		return s.finish(s.Members[i])
	}
	if len(s.Members) > s.Desired {
		return s.shrink(slices.MaxFunc(s.Members, byOrdinal))
	}
	if next := s.clean(); next.Kind != None {
		return next
	}
	if missing := s.missing(); missing < s.Desired {
		return s.grow(missing)
	}
	return s.waitForStuck()
}

// finish brings a learner to an end: it votes, or it goes when it is wanted no more.
func (s State) finish(learner Member) Action {
	switch {
	case learner.Ordinal >= s.Desired:
		return Action{Kind: Remove, Ordinal: learner.Ordinal}
	case !learner.Started:
		return wait("member %s joins when its pod has started", learner.Name)
	case slices.Contains(s.Open, learner.Ordinal):
		return wait("member %s has joined, and its configuration file is being closed to a start without data", learner.Name)
	case !learner.Healthy:
		return wait("member %s has joined and does not answer; to give up, set replicas back", learner.Name)
	}
	if s.Disagree {
		return wait("the members have different data, and no majority agrees: %s votes when it is decided whose is right", learner.Name)
	}
	if sick := s.sick(learner); sick != nil {
		return wait("member %s does not answer: %s votes when it does, so that the quorum is not at risk", sick.Name, learner.Name)
	}
	return Action{Kind: Promote, Ordinal: learner.Ordinal}
}

// shrink removes the last voter.
func (s State) shrink(last Member) Action {
	if sick := s.sick(last); sick != nil {
		return wait("member %s does not answer: without %s the quorum would be at risk", sick.Name, last.Name)
	}
	if slices.Contains(s.Used, last.Ordinal) {
		return wait("member %s goes when no kube-apiserver uses it any more", last.Name)
	}
	if s.Disagree {
		return wait("the members have different data, and no majority agrees: %s goes when it is decided whose is right", last.Name)
	}
	if i := slices.IndexFunc(s.Members, func(m Member) bool { return m.Differs && m.Ordinal != last.Ordinal }); i >= 0 {
		return wait("the data of member %s is not that of the majority: %s goes when that is replaced, so that no good copy is lost", s.Members[i].Name, last.Name)
	}
	if last.Leader {
		return Action{Kind: MoveLeader, Ordinal: slices.MinFunc(s.Members, byOrdinal).Ordinal}
	}
	return Action{Kind: Remove, Ordinal: last.Ordinal}
}

// clean takes away what is left of members that were removed. It passes over pods that are stuck, and over their volumes.
func (s State) clean() Action {
	for _, ordinal := range s.Pods {
		if !s.stays(ordinal) && !s.stuck(ordinal) {
			if s.mayBeBlank(ordinal) {
				return s.waitForFacts("pod", ordinal)
			}
			return wait("pod %s-%d, which is no member any more, is stopping", s.Name, ordinal)
		}
	}
	for _, ordinal := range s.Claims {
		if !s.stays(ordinal) && !s.stuck(ordinal) && !s.beginsOn(ordinal) {
			if s.mayBeBlank(ordinal) {
				return s.waitForFacts("the volume of", ordinal)
			}
			return Action{Kind: DeleteClaim, Ordinal: ordinal}
		}
	}
	return Action{}
}

// waitForStuck waits for the first pod that is stuck. It is the last step: all other members are as desired.
func (s State) waitForStuck() Action {
	for _, ordinal := range slices.Sorted(maps.Keys(s.Stuck)) {
		if s.stuck(ordinal) && !s.stays(ordinal) {
			return wait("pod %s-%d, which is no member any more, cannot stop while host node %s is not heard from: bring it back, or delete its Node if it is gone for good",
				s.Name, ordinal, s.Stuck[ordinal])
		}
	}
	return Action{}
}

// grow adds a member that is missing. One that is missing before others is added before the last one goes: else fewer than
// desired would vote.
func (s State) grow(ordinal int) Action {
	if members := max(s.Desired, len(s.Members)+1); members > s.Hosts {
		return wait("%d members need as many host nodes, and there are %d: add host nodes, or set replicas back", members, s.Hosts)
	}
	if s.Disagree {
		return wait("the members have different data, and no majority agrees: another one is added when it is decided whose is right")
	}
	if sick := s.sick(Member{Ordinal: ordinal}); sick != nil {
		return wait("member %s does not answer: another one is added when it does, so that the quorum is not at risk", sick.Name)
	}
	if slices.Contains(s.Open, ordinal) {
		return wait("member %d has no configuration file yet, without which its pod does not start: look at Reconciled for why it cannot be written", ordinal)
	}
	return Action{Kind: AddLearner, Ordinal: ordinal}
}

// sick is a member that does not answer, besides one; nil for none.
func (s State) sick(besides Member) *Member {
	for i := range s.Members {
		if m := &s.Members[i]; !m.Healthy && m.Ordinal != besides.Ordinal {
			return m
		}
	}
	return nil
}

// missing is the first member that is not listed and has no stuck pod.
func (s State) missing() int {
	ordinal := 0
	for s.lists(ordinal) || s.stuck(ordinal) {
		ordinal++
	}
	return ordinal
}

// stuck reports whether a member was removed and its pod cannot stop. A member whose pod is new was not removed: it waits to be added.
func (s State) stuck(ordinal int) bool {
	_, stuck := s.Stuck[ordinal]
	return stuck && !slices.Contains(s.Blank, ordinal)
}

// stays reports whether what is there of a member may stay for now. What is not wanted stays as long as a member after it:
// until then the StatefulSet keeps its pod.
func (s State) stays(ordinal int) bool {
	if ordinal < s.Desired {
		return s.lists(ordinal) || slices.Contains(s.Blank, ordinal)
	}
	return ordinal <= slices.MaxFunc(s.Members, byOrdinal).Ordinal
}

// beginsOn reports whether a member that is wanted begins on the volume that it had before a restore in place.
func (s State) beginsOn(ordinal int) bool {
	return ordinal < s.Desired && slices.Contains(s.Former, ordinal)
}

// mayBeBlank reports whether the pod and the volume of a member that etcd does not list may be new and wait for the member to be added. It
// is true while the facts are missing that tell them from those of a removed member.
func (s State) mayBeBlank(ordinal int) bool { return s.BlankUnknown && ordinal < s.Desired }

func (s State) waitForFacts(what string, ordinal int) Action {
	return wait("%s %s-%d may be new or left of a removed member: the change of members goes on when the host cluster tells which", what, s.Name, ordinal)
}

func (s State) lists(ordinal int) bool {
	return slices.ContainsFunc(s.Members, func(m Member) bool { return m.Ordinal == ordinal })
}

func byOrdinal(a, b Member) int { return cmp.Compare(a.Ordinal, b.Ordinal) }

func wait(format string, args ...any) Action {
	return Action{Kind: Wait, Reason: fmt.Sprintf(format, args...)}
}
