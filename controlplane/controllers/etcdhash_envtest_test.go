//go:build envtest

package controllers

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status/statustest"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/sample"
)

// A value of one member is changed while it is stopped, and etcd does not look when it starts: only hashes tell. The member
// leads or not, as it happens.
func TestAMemberOfARealEtcdWithOtherDataIsReplaced(t *testing.T) {
	sample.OneIn(t, 4, "it takes a minute, and the simulated world has the same loss at every commit")
	t.Parallel()
	e := newEtcdThatTells(t)
	e.unchecked = true
	e.reconciler.etcd.Hashes, e.reconciler.etcd.HashEvery = etcd.Hashes, 500*time.Millisecond
	e.operator = operator.New(e.reconciler.etcd, e.reconciler.Clock, e.reconciler.recorder)
	e.await("all have the same data", func(ctx context.Context) bool {
		report := e.round(ctx)
		return len(report.Problems()) == 0 && e.writer.count() > 20
	})
	rounds := 0
	e.await("there were some comparisons under writes", func(ctx context.Context) bool {
		report := e.round(ctx)
		differs := report.Disagree || slices.ContainsFunc(report.Members, func(m etcd.Member) bool { return m.Differs })
		// A busy machine may leave etcd without a leader for a moment, and that is a problem.
		if differs || report.Recovery != "" && len(report.Problems()) == 0 {
			t.Errorf("while all have the same data it says %q of %+v", report.Recovery, report.Members)
		}
		rounds++
		return rounds > 20
	})
	before := e.ids(e.round(t.Context()))
	wrong := statustest.PodName(names.EtcdData, 1)
	e.members[wrong].stop()
	e.changeValue(wrong)
	e.awaitReplacement(wrong, before)
	e.expectNothingLost()
}

// changeValue changes a value in the database of a member that is stopped.
func (e *realEtcd) changeValue(member string) {
	e.t.Helper()
	db, err := bolt.Open(filepath.Join(e.directory, member, dataOfMember, "snap", "db"), 0o600, &bolt.Options{Timeout: etcd.Timeout})
	if err != nil {
		e.t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		bucket := tx.Bucket([]byte("key"))
		revision, value := bucket.Cursor().First()
		if len(value) == 0 {
			return fmt.Errorf("there is no value in %s", db.Path())
		}
		changed := append([]byte{}, value...)
		changed[len(changed)/2] ^= 1
		return bucket.Put(append([]byte{}, revision...), changed)
	})
	if err != nil {
		e.t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		e.t.Fatal(err)
	}
}

// count is how many writes were acknowledged.
func (w *writer) count() int {
	w.lock.Lock()
	defer w.lock.Unlock()
	return len(w.acked)
}
