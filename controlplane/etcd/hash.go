package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/hashes"
)

// Hashes asks each voter for the hash of its data at the newest revision that all had when their health was checked. A member
// commits nothing while it reads its data for it, so one is asked after the other, the leader last. Each has Timeout to answer.
func Hashes(ctx context.Context, health *Health, members map[string]Address, config *tls.Config) ([]hashes.Hash, error) {
	voters, revision := health.comparable()
	var found []hashes.Hash
	for _, m := range voters {
		client, err := dial(ctx, []Address{members[m.Name]}, config)
		if err != nil {
			return nil, err
		}
		found = append(found, hashOf(ctx, client, m, revision))
		_ = client.Close() // Nothing was written through it.
	}
	return found, nil
}

// comparable are the voters, the leader last, and the newest revision that all of those have that answered.
func (h *Health) comparable() (voters []Member, revision int64) {
	for _, m := range h.Members {
		if !m.Listed || m.Learner {
			continue
		}
		voters = append(voters, m)
		if m.Answered && (revision == 0 || m.Revision < revision) {
			revision = m.Revision
		}
	}
	slices.SortStableFunc(voters, func(a, b Member) int {
		switch {
		case a.Leader == b.Leader:
			return cmp.Compare(a.Name, b.Name)
		case a.Leader:
			return 1
		}
		return -1
	})
	return voters, revision
}

// hashOf asks one member. One that has compacted the revision, or does not answer, has no hash.
func hashOf(ctx context.Context, client *clientv3.Client, m Member, revision int64) hashes.Hash {
	hash := hashes.Hash{ID: m.ID, Version: m.Version, Revision: revision}
	if !m.Answered || revision == 0 {
		return hash
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	if answer, err := maintenance(client).HashKV(ctx, "", revision); err == nil {
		hash.Answered, hash.Compacted, hash.Sum = true, answer.CompactRevision, answer.Hash
	}
	return hash
}
