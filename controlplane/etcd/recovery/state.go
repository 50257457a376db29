package recovery

import (
	"slices"
	"strings"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/byhand"
)

// Annotation of a member's Service holds its Replacement as JSON. Whoever removes it gives the member new tries.
const Annotation = "kok.cluster.x-k8s.io/etcd-replacement"

// FormerAnnotation is on a volume claim of a member that had data when a restore in place began. Its value is the time of that restore.
// The member begins on this volume, where its former data are put aside.
const FormerAnnotation = "kok.cluster.x-k8s.io/etcd-former-data"

// State is all that a decision depends on.
type State struct {
	// Now is the time of the manager, which is also in records.
	Now time.Time
	// FoundsAnew is the command by which a person founds this etcd anew, empty; empty for one with more than events.
	FoundsAnew string
	// Restores begins the command by which a person restores this etcd in place; empty for one with events alone.
	Restores string
	// TakesSnapshot is the command by which a person has a snapshot taken.
	TakesSnapshot string
	// ByHand has the commands by which a person removes a member.
	ByHand byhand.Etcdctl
	// Members are those that the spec asks for and those that etcd lists.
	Members []Member
	// Spare is the number of host nodes that take pods and have no pod of this cluster.
	Spare int
	// Volatile is true when the data of members goes with their pods. Then they have no claims.
	Volatile bool
	// Disagree is true when no majority of the voters has the same data, as package hashes has it.
	Disagree bool
}

// Member is a member with all that belongs to it.
type Member struct {
	// Name is the member's and its pod's.
	Name string
	// Ordinal is its place among the cluster's pods.
	Ordinal int
	// ID is what etcd lists it by; zero for one that is not listed, and for all while etcd has no quorum.
	ID uint64
	// Started is true once it ran. Learner is true while it does not vote. Leader is true for the one that leads.
	Started, Learner, Leader bool
	// Healthy is true when it answers and does not stop. Follows is true when it knows the leader, or leads.
	Healthy, Follows bool
	// Behind is how many entries of the log it has yet to apply of those that the leader knows.
	Behind uint64
	// Differs is true when its hash is not that of a majority at the same revision, as package hashes has it.
	Differs bool
	// Data is what prepare found.
	Data  Data
	Pod   Pod
	Claim Claim
	// Host is the node that the pod is on. While it is on none, it is the node that the volume is tied to.
	Host Host
	// Last is the last replacement that has begun, as the member's Service has it.
	Last Replacement
}

// Data is what prepare found in a data directory. Prepare is an init container: it looks before etcd starts.
type Data string

// What prepare can find.
const (
	// Unknown: it has not looked, or the pod has no such container.
	Unknown Data = ""
	// Stale: the pod has been ready since it looked, so that the directory may be another by now.
	Stale Data = "Stale"
	// Empty: there is no data.
	Empty Data = "Empty"
	// Present: there is data, and etcd's own packages can read it.
	Present Data = "Present"
	// Unreadable: there is data, and they cannot.
	Unreadable Data = "Unreadable"
	// NoSpace: the disk is full. Prepare fails then, so that kubelet has it look again.
	NoSpace Data = "NoSpace"
)

// Pod is the pod of a member.
type Pod struct {
	// UID is empty when there is no pod.
	UID string
	// Stopping is true for one that was deleted. Outdated is true for one that is not, or may not be, as its StatefulSet
	// wants it now.
	Stopping, Outdated bool
	// PendingSince is since when it has no node or no volume; zero for one that has both.
	PendingSince time.Time
	// FailedStarts is how often in a row etcd ended in this pod, or prepare failed, without the pod having become ready.
	FailedStarts int
	// Early is true when the pod is older than the configuration file that lets its learner join, and kubelet waits before it starts etcd
	// again. Etcd failed in it for want of that file.
	Early bool
}

// Claim is the volume claim of a member.
type Claim struct {
	// UID is empty when there is no claim.
	UID string
	// Stopping is true for one that was deleted. Tied is true when only one host node can use the volume. Lost is true when
	// the volume that it was bound to is there no more.
	Stopping, Tied, Lost bool
	// Former is true when it was there before a restore in place.
	Former bool
	// LastSnapshots names the claim of the member's volume for snapshots when verified ones may be there, and no other member is known to keep
	// any. It is empty for none. SnapshotsKnown is true when the member itself is known to keep one. SnapshotsTied is true when only one host
	// node can use that volume.
	LastSnapshots                 string
	SnapshotsKnown, SnapshotsTied bool
}

// Host is a host node.
type Host struct {
	// Name is empty for no host node.
	Name string
	// Unheard is true when the host cluster does not hear from it: the member may well be running there.
	Unheard bool
	// Gone is true when its Node object was deleted. OutOfService is true when it has the taint
	// node.kubernetes.io/out-of-service.
	Gone, OutOfService bool
	// CordonedSince is since when it is cordoned; zero when it is not.
	CordonedSince time.Time
}

// Replacement is the record of a replacement.
type Replacement struct {
	// Of is the ID of the member that is replaced; zero for one that another hand had removed.
	Of uint64 `json:"of"`
	// Volume is the UID of its claim, or of its pod where data goes with pods.
	Volume string `json:"volume"`
	// Begun is when it began.
	Begun time.Time `json:"begun"`
	// Try counts replacements of this member that followed each other.
	Try int `json:"try"`
}

// Blank are members that etcd does not list and whose pods and volumes are new, or from before a restore in place: package membership must
// not delete those. The last member is never among them, because its StatefulSet does not keep its pod.
func (s State) Blank() []int {
	var ordinals []int
	for _, m := range s.Members {
		if m.ID == 0 && s.middle(m) && (s.begun(m) && !s.keepsOld(m) || s.beginsOnFormer(m)) {
			ordinals = append(ordinals, m.Ordinal)
		}
	}
	return ordinals
}

// NeedsSpare reports whether the next step depends on there being a spare host node.
func (s State) NeedsSpare() bool {
	without, with := s, s
	without.Spare, with.Spare = 0, 1
	return Decide(without) != Decide(with)
}

// Silent are the host nodes of members that do not work, when all of these are on host nodes that are only not heard from; none
// when others do not work either.
func (s State) Silent() []Host {
	var silent []Host
	for _, m := range s.Members {
		switch {
		case m.works() && m.ID != 0 && !m.Learner && !m.Differs && m.Host.open():
		case m.works() || !m.Host.silent() || m.ID == 0:
			return nil
		default:
			silent = append(silent, m.Host)
		}
	}
	return silent
}

// Record is what a step that begins a replacement writes.
func (s State) Record(begins Action) Replacement {
	m := s.Member(begins.Ordinal)
	return Replacement{Of: m.ID, Volume: s.volume(m), Begun: s.Now, Try: begins.Try}
}

// Member is the member with an ordinal, of which there is one.
func (s State) Member(ordinal int) Member {
	return s.Members[slices.IndexFunc(s.Members, func(m Member) bool { return m.Ordinal == ordinal })]
}

// Joining says which members were replaced and do not vote yet; empty for none. Package membership brings them in.
func (s State) Joining() string {
	var joining []string
	for _, m := range s.Members {
		if s.unfinished(m) && s.within(m.Last.Begun, triesCount) {
			joining = append(joining, m.Name)
		}
	}
	if len(joining) == 0 {
		return ""
	}
	return strings.Join(joining, ", ") + " was replaced, and joins"
}

// begun reports whether the record is of the replacement of this very member and volume. One that etcd does not list any
// more is told by the time alone.
func (s State) begun(m Member) bool {
	return s.within(m.Last.Begun, triesCount) && (m.ID == 0 || m.Last.Of == m.ID && m.Last.Volume == s.volume(m))
}

// keepsOld reports whether the volume is still that of a member that was removed: by its UID, or by what prepare saw; or
// whether another hand has deleted it.
func (s State) keepsOld(m Member) bool {
	if s.volume(m) == "" {
		return false
	}
	return s.volume(m) == m.Last.Volume || m.ID == 0 && (m.Claim.Stopping || slices.Contains([]Data{Stale, Present, Unreadable}, m.Data))
}

// beginsOnFormer reports whether a member that etcd does not list may join on a volume from before a restore in place: prepare has put the
// former data aside, or has yet to look.
func (s State) beginsOnFormer(m Member) bool {
	return m.ID == 0 && !s.begun(m) && m.Claim.Former && !m.Claim.Stopping && (m.Data == Empty || m.Data == Unknown)
}

// volume is the UID of what the member's data goes with.
func (s State) volume(m Member) string {
	if s.Volatile {
		return m.Pod.UID
	}
	return m.Claim.UID
}

// unfinished reports whether a member was added or removed and does not vote yet, or again.
func (s State) unfinished(m Member) bool {
	if m.ID != 0 {
		return m.Learner
	}
	return s.begun(m) || s.middle(m) && (m.Pod.UID != "" || m.Claim.UID != "")
}

// middle reports whether etcd lists a member after this one, so that the StatefulSet keeps its pod.
func (s State) middle(m Member) bool {
	return slices.ContainsFunc(s.Members, func(other Member) bool { return other.ID != 0 && other.Ordinal > m.Ordinal })
}

// within reports whether a moment is less than last ago. A moment in the future comes from another clock, and does not count.
func (s State) within(moment time.Time, last time.Duration) bool {
	age := s.Now.Sub(moment)
	return age >= 0 && age < last
}

// since reports whether a moment is at least duration ago. It reports false for the zero time.
func (s State) since(moment time.Time, duration time.Duration) bool {
	return !moment.IsZero() && s.Now.Sub(moment) >= duration
}

func (s State) voters() []Member {
	return slices.DeleteFunc(slices.Clone(s.Members), func(m Member) bool { return !m.votes() })
}

func (m Member) votes() bool { return m.ID != 0 && !m.Learner }
func (m Member) works() bool { return m.Healthy && m.Follows }

// KeptSnapshots names the claim of the volume for snapshots that a replacement of the member keeps; empty where it keeps none. Where nobody
// knows of any snapshot, such as in a tenant that was never backed up, the claim goes if it ties the member to a host node that takes no
// pods: the replacement would not end.
func (m Member) KeptSnapshots() string {
	if !m.Claim.SnapshotsKnown && m.Claim.SnapshotsTied && !m.Host.open() {
		return ""
	}
	return m.Claim.LastSnapshots
}

// silent reports whether a host node is only not heard from: nobody has said that it is gone.
func (h Host) silent() bool { return h.Unheard && !h.Gone && !h.OutOfService }

// open reports whether a host node can take the pod of its member again.
func (h Host) open() bool {
	return h.Name != "" && !h.Unheard && !h.Gone && !h.OutOfService && h.CordonedSince.IsZero()
}
