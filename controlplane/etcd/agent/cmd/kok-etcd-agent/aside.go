package main

import (
	"errors"
	"os"
	"slices"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/former"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/mounted"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/rebuild"
)

// instruction is what the manager has said of the data of this member.
type instruction struct {
	folder mounted.Folder
	// former are the IDs of clusters whose data must not be started again. formerErr says why they are not known.
	former    []string
	formerErr error
	// begins is true when the member begins with seed. seedErr says why that is not known.
	begins  bool
	seed    backup.Seed
	seedErr error
}

// instruction reads what the manager has said.
func (s *seeding) instruction() (i instruction) {
	if s.dir == "" {
		return i
	}
	var err error
	if i.folder, err = mounted.OpenFolder(s.dir); errors.Is(err, os.ErrNotExist) {
		return i
	}
	if err != nil {
		i.formerErr, i.seedErr = err, err
		return i
	}
	i.former, i.formerErr = i.folder.Former()
	i.seed, i.begins, i.seedErr = i.folder.Seed()
	i.begins = i.begins && i.seed.Member == s.member
	return i
}

// putAside puts data aside that this member must not start with, and returns false if there are none. It fails if it cannot tell.
func (i instruction) putAside(dataDir string, found facts.Facts) (former.Aside, bool, error) {
	hasMember, err := former.HasMember(dataDir)
	if err := errors.Join(i.formerErr, err); err != nil {
		return former.Aside{}, false, err
	}
	if i.mayBeFormer(found) {
		return former.Aside{}, false, errMayBeFormer
	}
	name := i.asideAs(found, hasMember)
	if name == "" {
		return former.Aside{}, false, nil
	}
	aside, err := former.PutAside(dataDir, name)
	return aside, err == nil, err
}

// errMayBeFormer keeps etcd from starting, for a restore in place promises that.
var errMayBeFormer = errors.New("these may be data of a former cluster, which must not be started: etcd is held until they can be read, and no other program has them open")

// newCluster is the ID of the cluster that a restore in place founds with this member; empty where none does.
func (i instruction) newCluster() string {
	if !i.begins || i.seed.Restore == "" {
		return ""
	}
	return rebuild.ClusterID(i.seed.PeerURL, i.seed.Restore)
}

// asideAs is the name by which data are put aside; empty for those that stay. hasMember is true when there is anything.
func (i instruction) asideAs(found facts.Facts, hasMember bool) string {
	cluster := rebuild.Padded(found.ClusterID)
	switch {
	case !hasMember:
		return ""
	case i.isFormer(cluster):
		return cluster
	case i.begins && found.State == facts.Empty:
		return former.WithoutData
	case i.newCluster() == "" || i.newCluster() == cluster:
		return ""
	case found.Damaged():
		return former.Unreadable
	case found.State == facts.Present && neverLed(found):
		return former.WithoutData
	}
	return ""
}

// isFormer reports whether data of a cluster must not be started again.
func (i instruction) isFormer(cluster string) bool {
	return cluster != "" && slices.ContainsFunc(i.former, func(id string) bool { return rebuild.Padded(id) == rebuild.Padded(cluster) })
}

// mayBeFormer reports whether etcd must wait, for there may be data of a former cluster that cannot be put aside now: it is not known
// which cluster they are of, and etcd does not refuse them by itself, or another program writes to them.
func (i instruction) mayBeFormer(found facts.Facts) bool {
	switch {
	case len(i.former) == 0 || found.State != facts.Unreadable:
		return false
	case found.Reason == facts.InUse:
		return found.ClusterID == "" || i.isFormer(found.ClusterID)
	}
	return found.ClusterID == "" && !found.Damaged()
}

// neverLed reports whether no leader ever wrote to a log: entries of the first term are those that the members of a new cluster
// begin with. What is restored from a snapshot has no others, and a high revision.
func neverLed(found facts.Facts) bool { return found.Term <= 1 && found.Revision <= 1 }
