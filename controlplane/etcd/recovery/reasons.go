package recovery

import (
	"fmt"
	"slices"
	"strings"
)

// leaves says why a member cannot stay on its host node; empty when it can. A member whose volume another host node can
// use goes there with its data, when its pod does.
func (s State) leaves(m Member) string {
	switch {
	case !m.Claim.Tied && !s.Volatile || m.Host.silent():
		return ""
	case m.Host.Gone:
		return "its host node is gone, as the Node object was deleted"
	case m.Host.OutOfService:
		return "its host node is out of service"
	case s.pending(m) && s.since(m.Host.CordonedSince, cordonPatience): // Until it is drained it stays.
		return "its host node was drained, and has been cordoned for more than ten minutes"
	}
	return ""
}

// lost says why a member is a voter that must be replaced; empty when it is none. The only voter never is.
func (s State) lost(m Member) string {
	leaves := s.leaves(m)
	switch {
	case !m.votes() || len(s.voters()) == 1 || m.Host.silent():
		return ""
	case leaves != "":
		return leaves
	case m.Differs:
		return "its data is not that of the majority"
	case m.Healthy || m.Pod.Stopping:
		return ""
	case !s.Volatile && m.Claim.UID == "":
		return "its volume claim is gone"
	case m.Claim.Lost:
		return "its volume is gone"
	case m.emptied() && m.Data == Empty:
		return "its data directory is empty"
	case m.emptied():
		return "its data cannot be read"
	case m.Data == Present && m.Pod.FailedStarts >= maxFailedStarts:
		return "etcd does not start with its data"
	}
	return ""
}

// emptied reports whether a member does not start for want of data. One that joined in this pod may end once before the pod is ready.
func (m Member) emptied() bool {
	return m.Data == Empty && m.Pod.FailedStarts > 1 || m.Data == Unreadable
}

// gone reports whether a member does not run and cannot come back, whatever its pod is like: no rollout is to blame.
func (s State) gone(m Member) bool {
	return !m.Healthy && (s.leaves(m) != "" || m.Claim.Lost || !s.Volatile && m.Claim.UID == "")
}

// risk says why a member must not be touched now; None when it may. All others work then. That etcd of a voter with a
// volume fails to start counts only once no pod is outdated, so that no rollout is to blame.
func (s State) risk(m Member, why string) Action {
	if sick := s.sick(m); sick != nil {
		if lost := s.lost(*sick); lost != "" {
			return needsDecision("%s, and %s. Two are not replaced at once. Bring one back. To give up %s, %s",
				m.is(why), sick.is(lost), sick.Name, s.ByHand.Remove(sick.Name, sick.ID))
		}
		return wait("%s. It is replaced when %s works", m.is(why), sick.at())
	}
	if i := slices.IndexFunc(s.Members, func(other Member) bool { return other.Leader && other.Differs && other.Ordinal != m.Ordinal }); i >= 0 {
		return wait("%s. It is replaced after %s, which leads with data that is not that of the majority: whoever joins has its data from there", m.is(why), s.Members[i].Name)
	}
	if i := slices.IndexFunc(s.Members, func(other Member) bool {
		return other.votes() && other.Ordinal != m.Ordinal && other.Behind > maxBehind
	}); i >= 0 && m.works() {
		return wait("%s. It is replaced when %s has what it lacks of the leader's log", m.is(why), s.Members[i].Name)
	}
	outdated := slices.ContainsFunc(s.Members, func(m Member) bool { return m.Pod.Outdated })
	switch {
	case m.votes() && len(s.voters()) < minVoters:
		return wait("%s. It is replaced when %d members vote", m.is(why), minVoters)
	case m.votes() && outdated && !s.Volatile && !s.gone(m): // Pods that have the data are not rolled out.
		wayOut := s.ByHand.Remove(m.Name, m.ID)
		if m.Data == Present || m.Data == Stale {
			wayOut = "take back the change that it does not start with"
		}
		return wait("%s. It is replaced when all pods are up to date: if they wait for it, %s", m.is(why), wayOut)
	}
	return Action{}
}

// noRoom says that there is no host node for a member that cannot stay where it is; None when there is.
func (s State) noRoom(m Member, why string) Action {
	if m.ID == 0 || s.Spare > 0 || m.Host.open() {
		return Action{}
	}
	return wait("%s. It is replaced when a host node is spare: add one, or bring its own back", m.is(why))
}

// lastSnapshots says that a member cannot stay where the only verified snapshots are; None when it can, when they are elsewhere, too, or when
// nobody knows of any. A StatefulSet gives the pod of a member the same claim again, and no other one, so the pod starts elsewhere only when
// that claim is deleted.
func (s State) lastSnapshots(m Member, why string) Action {
	if m.KeptSnapshots() == "" || !m.Claim.SnapshotsTied || m.Host.open() {
		return Action{}
	}
	return wait("%s. Volume claim %s ties it to that host node and has the only verified snapshots, so it is replaced when another member keeps one, too: run %s. "+
		"Or bring the host node back, delete its Node object if it is gone for good, or delete the claim if nobody needs these snapshots",
		m.is(why), m.Claim.LastSnapshots, s.TakesSnapshot)
}

// tooOften says that a member was replaced a moment ago, or again and again; None when it was not.
func (s State) tooOften(m Member, why string) Action {
	switch {
	case s.begun(m):
		return Action{}
	case s.triedBefore(m) >= maxTries:
		return needsDecision("%s, although it was replaced %d times. Find out why; to have it tried again, remove the annotation %s of Service %s",
			m.is(why), maxTries, Annotation, m.Name)
	case s.within(m.Last.Begun, tryPatience) && m.Last.Of != m.ID:
		return wait("%s. It was replaced a moment ago, and is again at %s", m.is(why), m.Last.Begun.Add(tryPatience).UTC().Format("15:04 MST"))
	}
	return Action{}
}

// look says what is to be done about a voter that is not lost and does not work; None for what ends by itself.
func (s State) look(m Member) Action {
	fails := m.Pod.FailedStarts >= maxFailedStarts
	switch {
	case !m.votes() || m.Healthy:
		return Action{}
	case m.Host.silent():
		return wait("%s: the host cluster does not hear from it. Bring the host node back, or delete its Node object if it is gone for good", m.at())
	case m.Data == NoSpace:
		return needsDecision("%s: its disk is full. Make room there", m.at())
	case fails && m.Data == Stale:
		return s.lookAgain(m)
	case fails && m.Data == Unknown:
		return needsDecision("%s: etcd fails to start, and nothing is known of its data. See its log. To give its data up, %s", m.at(), s.ByHand.Remove(m.Name, m.ID))
	}
	return Action{}
}

// lookAgain has a pod made anew, so that prepare looks at the data that etcd does not start with.
func (s State) lookAgain(m Member) Action {
	const why = "etcd fails to start"
	if risk := s.risk(m, why); risk.Kind != None {
		return risk
	}
	return Action{Kind: DeletePod, Ordinal: m.Ordinal, Reason: m.is(why)}
}

// waitForQuorum names the members that a quorum waits for. No data is given up without a quorum.
func (s State) waitForQuorum() Action {
	var away []string
	var left []Member
	for _, m := range s.Members {
		if m.Healthy || !m.emptied() || m.Host.silent() { // What is known of a silent host node may be out of date: the data may be there.
			left = append(left, m)
		}
		if !m.Healthy {
			away = append(away, m.at()+m.state())
		}
	}
	names := strings.Join(away, ", ")
	switch {
	case names == "":
		return wait("etcd has no quorum, although every member answers. See their logs")
	case len(left) > len(s.Members)/2:
		return wait("etcd has no quorum without %s. Bring back as many as are a majority: no data is given up by itself", names)
	}
	return needsDecision("etcd has no quorum, and too many have lost their data for one to come back: %s. %s", names, s.wayOut(left))
}

// wayOut says how a person restores an etcd without quorum: from a member whose data are left, at best one that answers, or from a
// snapshot. Data in pods do not outlive the restore.
func (s State) wayOut(left []Member) string {
	left = slices.DeleteFunc(left, func(m Member) bool { return s.Volatile || s.gone(m) })
	switch {
	case s.FoundsAnew != "":
		return "Found it anew, which costs nothing but events: " + s.FoundsAnew
	case len(left) == 0:
		return "Restore a snapshot: " + s.Restores + " SNAPSHOT"
	}
	survivor := left[max(0, slices.IndexFunc(left, func(m Member) bool { return m.Healthy }))]
	return fmt.Sprintf("Restore it from a member that is left: %s --survivor %s", s.Restores, survivor.Name)
}

// noMajority asks whose data is right. Nothing is replaced meanwhile, for any member may have the only good copy.
func (s State) noMajority() Action {
	var names []string
	for _, m := range s.voters() {
		names = append(names, fmt.Sprintf("%s (%x)", m.Name, m.ID))
	}
	return needsDecision("the data of members %s is not the same, and no majority agrees. Find out whose is right. To remove another one, with its ID in place of ID, %s",
		strings.Join(names, ", "), s.ByHand.RemoveOne())
}

// state says, after its name, what is known of a member that does not answer.
func (m Member) state() string {
	switch {
	case m.Data == Empty || m.Data == Unreadable:
		return fmt.Sprintf(" (data: %s)", m.Data)
	case m.Host.Gone:
		return " (its Node object was deleted)"
	case m.Host.OutOfService:
		return " (out of service)"
	case m.Host.Unheard:
		return " (not heard from)"
	case !m.Host.CordonedSince.IsZero():
		return " (cordoned)"
	}
	return ""
}
