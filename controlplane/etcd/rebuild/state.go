package rebuild

import (
	"slices"
	"strings"
	"time"
)

// Phase is how far a restore in place has come.
type Phase string

// Phases of a restore in place, in their order.
const (
	// Stopping: all that knows the former data stops.
	Stopping Phase = "Stopping"
	// Founding: the seed may begin.
	Founding Phase = "Founding"
	// Over: the seed has answered as a member of the new cluster.
	Over Phase = "Over"
)

// Record is what is known of the last restore in place. The zero value is for a control plane that never had one.
type Record struct {
	// Restore is the request, which is its time.
	Restore string `json:"restore"`
	Phase   Phase  `json:"phase"`
	// Seed is the member that begins.
	Seed string `json:"seed"`
	// ClusterID is the ID that the new cluster has, in hexadecimal.
	ClusterID string `json:"clusterID"`
	// Former are the IDs of clusters whose data must not start again.
	Former []string `json:"former,omitempty"`
	// Members are the former members. Voters is how many of them voted.
	Members []Member `json:"members,omitempty"`
	Voters  int      `json:"voters,omitempty"`
	// Begins is what the new etcd begins with; nil in a record of an earlier release, where spec has it. Automatic is true where the
	// controller asked by itself.
	Begins    *Ask `json:"begins,omitempty"`
	Automatic bool `json:"automatic,omitempty"`
	// Slot is that of the snapshot that it begins with, in the control plane's own store: the restore goes on without the object. It is empty
	// for a survivor, and in a record of an earlier release.
	Slot string `json:"slot,omitempty"`
	// Tried are the beginnings with snapshots before it, of the same loss of data: they failed, or somebody asked for another one.
	Tried []Try `json:"tried,omitempty"`
}

// Try is one beginning: with a snapshot, at a member.
type Try struct {
	Snapshot string `json:"snapshot"`
	Member   string `json:"member"`
}

// Stamp writes a time as records have it; empty for the zero time.
func Stamp(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

// Member is a former member, and the host node that it ran on.
type Member struct {
	Name string `json:"name"`
	// Host is the name of its host node, and HostUID the UID of the Node object; both are empty where they are not known.
	Host    string `json:"host,omitempty"`
	HostUID string `json:"hostUID,omitempty"`
}

// State is all that a decision depends on.
type State struct {
	// Request is the restore that is asked for; empty for none.
	Request string
	// Problem is why it cannot begin, for people; empty when it can. Unknown is what must be known before that is judged.
	Problem, Unknown string
	// Next is the record that it begins with.
	Next Record
	// Record is the one that is stored.
	Record Record
	// Pods are those that use the data, as the host cluster has them now.
	Pods []Pod
	// Heard are the UIDs of Node objects of host nodes that the host cluster has heard from for a while, by their names.
	Heard map[string]string
	// GivenUp are members that never run again with their former data, as a person says.
	GivenUp []string
	// Refusal is why the seed cannot begin, and what a person does, for people; empty while nothing is wrong.
	Refusal string
	// ClusterID is that of the cluster whose member answered last. It is that of the new cluster only when its seed was well.
	ClusterID string
}

// Pod is a pod that uses the data.
type Pod struct {
	// Name is the pod's, Host that of its host node; empty while it has none.
	Name, Host string
}

// UnderWay reports whether a restore has begun and is not over.
func (r Record) UnderWay() bool { return r.Phase == Stopping || r.Phase == Founding }

// FromSurvivor reports whether the new etcd begins with the data of a survivor.
func (r Record) FromSurvivor() bool { return r.Begins != nil && r.Begins.Survivor != "" }

// FormerMembers are the members whose data the control plane had last, and how many of them voted. Until a restore is over, these are
// those that it began with: they may still run, and new ones have not joined.
func (s State) FormerMembers() (members []Member, voters int) {
	if s.Record.UnderWay() {
		return s.Record.Members, s.Record.Voters
	}
	return s.Next.Members, s.Next.Voters
}

// Asked reports whether a restore is asked for that is not over.
func (s State) Asked() bool {
	return s.Request != "" && (s.Record.Restore != s.Request || s.Record.Phase != Over)
}

// MayRun are the names of former members of which nobody knows that they stopped: their pod is there, or the host node that they
// ran on is not heard from, or is not known. Those that a person has given up are not among them.
func (s State) MayRun(members []Member) []string {
	var names []string
	for _, m := range members {
		if !slices.Contains(s.GivenUp, m.Name) && !s.stopped(m) {
			names = append(names, m.Name)
		}
	}
	return names
}

func (s State) stopped(m Member) bool {
	if slices.ContainsFunc(s.Pods, func(p Pod) bool { return p.Name == m.Name }) {
		return false
	}
	uid, heard := s.Heard[m.Host]
	return heard && uid == m.HostUID
}

// unreachable are pods on host nodes that are not heard from: nobody can stop them.
func (s State) unreachable() []Pod {
	return slices.DeleteFunc(slices.Clone(s.Pods), func(p Pod) bool {
		_, heard := s.Heard[p.Host]
		return p.Host == "" || heard || s.lost(p.Host)
	})
}

// lost reports whether a person has given up the member that ran on a host node, and with it the host node.
func (s State) lost(host string) bool {
	return slices.ContainsFunc(append(slices.Clone(s.Record.Members), s.Next.Members...), func(m Member) bool {
		return m.Host == host && slices.Contains(s.GivenUp, m.Name)
	})
}

// majority reports whether so many of the voters could take writes.
func majority(members, voters int) bool { return voters > 0 && members > voters/2 }

func names(pods []Pod) string {
	all := make([]string, 0, len(pods))
	for _, p := range pods {
		all = append(all, p.Name)
	}
	return strings.Join(all, ", ")
}

func hosts(pods []Pod) string {
	var all []string
	for _, p := range pods {
		all = append(all, p.Host)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}
