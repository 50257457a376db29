package serve

import (
	"hash/fnv"
	"slices"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/snapshot"
)

// view is what the next step depends on.
type view struct {
	now   time.Time
	every time.Duration
	// offset is how long after the beginning of a slot its snapshot is taken.
	offset time.Duration
	member string
	onDuty bool
	// own is true where the store is this member's own.
	own bool
	// entries are the snapshots of the store, the newest first.
	entries []snapshot.Entry
	// asked are slots that the manager asked this member for.
	asked []time.Time
	// unwanted are slots whose snapshots a person wants to be deleted.
	unwanted []time.Time
	// refused are slots whose trial refused them, and waits when slots may be tried again; both by the slot's name.
	refused map[string]bool
	waits   map[string]time.Time
}

// doing is what a step does.
type doing string

const (
	nothing doing = ""
	take    doing = "take"
	verify  doing = "verify"
	remove  doing = "remove"
)

// step is the next one to take.
type step struct {
	do   doing
	slot time.Time
	// entry is the snapshot to verify, or to delete.
	entry snapshot.Entry
}

// next decides. What was asked for comes first, then what a person wants to be deleted, then the present slot, and last the trial
// of the newest snapshot that no trial refused, unless it is verified. It ignores snapshots in the future.
func next(v view) step {
	for _, slot := range v.asked {
		if s := v.towards(slot); s.do != nothing {
			return s
		}
	}
	for _, slot := range v.unwanted {
		if e := v.entry(slot); e != nil && v.may(slot) && v.mayGo(*e) {
			return step{do: remove, slot: slot, entry: *e}
		}
	}
	if !v.onDuty && !v.own {
		return step{}
	}
	present := archive.SlotOf(v.now, v.every)
	if v.onDuty && v.entry(present) == nil && v.may(present) && (len(v.entries) == 0 || !v.now.Before(present.Add(v.offset))) {
		return step{do: take, slot: present}
	}
	for _, e := range v.entries {
		if e.Err == nil && !v.refused[archive.SlotName(e.Slot)] && !archive.IsInFuture(e.Slot, v.now) {
			return v.trial(e)
		}
	}
	return step{}
}

// offsetOf spreads the tenants of a host cluster over the first quarter of a slot, and at most over ten minutes. A tenant without a
// snapshot takes its first one at once.
func offsetOf(cluster backup.Cluster, every time.Duration) time.Duration {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(cluster.Namespace + "/" + cluster.Name))
	return time.Duration(hash.Sum64() % uint64(min(every/4, mostOffset))) //nolint:gosec // Less than the bound.
}

const mostOffset = 10 * time.Minute

// towards is the step towards a verified snapshot of a slot.
func (v view) towards(slot time.Time) step {
	e := v.entry(slot)
	switch {
	case e == nil && v.may(slot):
		return step{do: take, slot: slot}
	case e == nil || v.settled(slot):
		return step{}
	}
	return v.trial(*e)
}

// othersTry is how long a snapshot is left to the member that took it, and most probably verifies it now.
const othersTry = 10 * time.Minute

func (v view) trial(e snapshot.Entry) step {
	others := e.Manifest.Member != v.member && v.now.Sub(e.Manifest.Taken) < othersTry
	if e.Verified() || others || !v.may(e.Slot) {
		return step{}
	}
	return step{do: verify, slot: e.Slot, entry: e}
}

// mayGo reports whether a snapshot that a person does not want may be deleted. A refused snapshot may be deleted only from a member's own
// volume. The manager has judged whether a newer snapshot is verified, from what all members keep: this volume may be too full for that one.
func (v view) mayGo(e snapshot.Entry) bool {
	if e.Err != nil {
		return v.own
	}
	all := make([]backup.Snapshot, len(v.entries))
	for i, e := range v.entries {
		all[i] = told(e)
	}
	return backup.WhyKept(all, e.Slot, v.now, v.own) == ""
}

// settled reports whether there is a snapshot of a slot with which nothing is left to do.
func (v view) settled(slot time.Time) bool {
	e := v.entry(slot)
	return e != nil && (e.Err != nil || e.Verified() || v.refused[archive.SlotName(slot)])
}

func (v view) entry(slot time.Time) *snapshot.Entry {
	i := slices.IndexFunc(v.entries, func(e snapshot.Entry) bool { return e.Slot.Equal(slot) })
	if i < 0 {
		return nil
	}
	return &v.entries[i]
}

func (v view) may(slot time.Time) bool { return !v.now.Before(v.waits[archive.SlotName(slot)]) }

// Bounds of waiting after a failure.
const (
	firstWait = 30 * time.Second
	lastWait  = 5 * time.Minute
)

// waitAfter is how long to wait after so many failures in a row.
func waitAfter(failures int) time.Duration {
	wait := firstWait
	for range failures - 1 {
		wait = min(2*wait, lastWait)
	}
	return wait
}
