package backup

import (
	"cmp"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
)

// The agent answers by HTTPS, to a client certificate of the CA of the data etcd whose common name is that of the manager. Where snapshots are
// on volumes of members, it answers reports and files to the other members, too.
const (
	// ReportPath answers GET with a Report.
	ReportPath = "/v1/report"
	// TakePath answers POST with 202. The client sends a TakeRequest. The agent takes a snapshot of the slot, also if another member is on
	// duty. The next Report says what came of it.
	TakePath = "/v1/take"
	// DeletePath answers POST, which has a DeleteRequest, with 202: the agent deletes the snapshot of the slot, unless it has to be kept, or
	// was not there when the store was read last. When it is done the next Report does not have it.
	DeletePath = "/v1/delete"
	// ObjectsPath begins the paths that answer GET with a file of a snapshot, whose name is the rest.
	ObjectsPath = "/v1/objects/"
	// MaxAnswer bounds a Report in bytes, and MaxSnapshots the snapshots in it.
	MaxAnswer    = 1 << 20
	MaxSnapshots = 500
)

// TakeRequest asks for a snapshot.
type TakeRequest struct {
	Slot time.Time `json:"slot"`
}

// DeleteRequest asks for the deletion of a snapshot.
type DeleteRequest struct {
	Slot time.Time `json:"slot"`
}

// Report is what an agent knows.
type Report struct {
	// Member is who answers. OnDuty is true for the one that takes snapshots now.
	Member string `json:"member"`
	OnDuty bool   `json:"onDuty"`
	// KeysID is the Config's KeysID by which the agent works; empty from agents of earlier releases, and before the first round.
	KeysID string `json:"keysID,omitempty"`
	// Own is true where the store is a volume of the member's own: each member lists another one.
	Own bool `json:"own,omitempty"`
	// Listed is when Snapshots were read from the store; zero before the first time. The newest is first.
	Listed    time.Time  `json:"listed,omitzero"`
	Snapshots []Snapshot `json:"snapshots,omitempty"`
	// More is how many older ones were left out.
	More int `json:"more,omitempty"`
	// Working is the slot that is taken or verified now.
	Working time.Time `json:"working,omitzero"`
	// Problem is why the last try failed; nil after one that did not.
	Problem *Problem `json:"problem,omitempty"`
	// Unread is why the store could not be listed when that was tried last; nil when it could, or was not tried yet.
	Unread *Problem `json:"unread,omitempty"`
	// Volume is the room on the member's own volume; nil where it is not known.
	Volume *Volume `json:"volume,omitempty"`
}

// Volume is the room that a member's volume has for the data of a new cluster. The former data stay beside them.
type Volume struct {
	FreeBytes int64 `json:"freeBytes"`
	// SurvivorBytes is what it takes to begin with the data of this member.
	SurvivorBytes int64 `json:"survivorBytes"`
	// LogTerm and LogIndex are of the last entry of the member's log; 0 while etcd has a quorum, and where it is not known.
	LogTerm  uint64 `json:"logTerm,omitempty"`
	LogIndex uint64 `json:"logIndex,omitempty"`
}

// EndsBefore reports whether another log has entries that this one lacks, as far as both ends are known. Etcd elects by the same order.
func (v Volume) EndsBefore(other Volume) bool {
	return v.LogIndex > 0 && cmp.Or(cmp.Compare(v.LogTerm, other.LogTerm), cmp.Compare(v.LogIndex, other.LogIndex)) < 0
}

// LogBytes is the room for the log of a new member: two files of etcd, and some more.
const LogBytes = 160 << 20

// RestoreBytes is the room that it takes to begin with a snapshot, by what etcd sent: that, the database that is made of it, and a
// log.
func RestoreBytes(sent int64) int64 { return 2*sent + LogBytes }

// TrialBytes is the room for the trial of a snapshot, by the quota of the database: what etcd sent, the database that is made of it, and
// the log of the trial. kubelet evicts a member whose trial takes more.
func TrialBytes(quota int64) int64 { return 2*quota + 512<<20 }

// Snapshot is one in the store.
type Snapshot struct {
	Slot time.Time `json:"slot"`
	// Reason and Message say why it is refused; the rest is empty then.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`

	TenantUID       string    `json:"tenantUID,omitempty"`
	Member          string    `json:"member,omitempty"`
	Taken           time.Time `json:"taken,omitzero"`
	Verified        time.Time `json:"verified,omitzero"`
	Revision        int64     `json:"revision,omitempty"`
	DatabaseBytes   int64     `json:"databaseBytes,omitempty"`
	StoredBytes     int64     `json:"storedBytes,omitempty"`
	SHA256          string    `json:"sha256,omitempty"`
	EtcdVersion     string    `json:"etcdVersion,omitempty"`
	StorageVersion  string    `json:"storageVersion,omitempty"`
	EncryptionKeyID string    `json:"encryptionKeyID,omitempty"`
}

// Unread reports whether the store's list refuses the snapshot: its manifest cannot be read with the tenant's keys, is another one's, or its
// object is not whole. A snapshot that only a trial refused has a revision.
func (s Snapshot) Unread() bool { return s.Reason != "" && s.Revision == 0 }

// Reasons to keep a snapshot that a person wants to be deleted.
const (
	// KeptForeign says that the snapshot cannot be read with the tenant's keys: it may be another tenant's.
	KeptForeign = "Foreign"
	// KeptNewest says that no newer snapshot is verified.
	KeptNewest = "Newest"
)

// WhyKept says why nobody deletes the snapshot of a slot from a store with these snapshots, not even when a person asks for it; it is empty
// when a person may have it deleted. Retention has the same rule: nothing goes unless a newer one is verified. A snapshot in the future is
// newer than none, and goes when any other is verified. own is true where snapshots are on volumes of the tenant's members: then one that
// cannot be read is nobody else's.
func WhyKept(all []Snapshot, slot, now time.Time, own bool) string {
	kept := KeptNewest
	for _, s := range all {
		switch {
		case s.Slot.Equal(slot) && s.Unread() && !own:
			return KeptForeign
		case s.Reason != "" || s.Verified.IsZero() || archive.IsInFuture(s.Slot, now):
		case s.Slot.After(slot) || archive.IsInFuture(slot, now):
			kept = ""
		}
	}
	return kept
}

// Problem is why a snapshot was not taken, or not verified.
type Problem struct {
	// Slot is the one that was tried; zero where none was.
	Slot time.Time `json:"slot,omitzero"`
	// Field is that of spec.etcd.backup which is wrong, where one is.
	Field string `json:"field,omitempty"`
	// Reason is one of package archive where a snapshot is refused, else empty.
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
	// Full is true when the store has no room.
	Full bool `json:"full,omitempty"`
}
