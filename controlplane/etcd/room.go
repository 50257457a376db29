package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/space"
)

// RoomTimeout bounds a step that makes room. Etcd writes a file of gigabytes anew.
const RoomTimeout = 5 * time.Minute

// noKey is a key that API servers never write: only the revision of the answer counts.
const noKey = "\x00"

// MakeRoom takes a step that was decided by a health that was checked a moment ago. What was done already is no error.
func MakeRoom(ctx context.Context, action space.Action, members map[string]Address, config *tls.Config) error {
	asked := slices.Collect(maps.Values(members))
	if action.Kind == space.Defragment {
		asked = []Address{members[action.Member]}
	}
	client, err := dial(ctx, asked, config)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // What was written through it has been answered.
	ctx, cancel := context.WithTimeout(ctx, RoomTimeout)
	defer cancel()
	switch action.Kind {
	case space.Compact:
		err = compact(ctx, client)
	case space.Defragment:
		err = defragment(ctx, client, members[action.Member])
	case space.Disarm:
		err = disarm(ctx, client)
	default:
		err = errors.New("is none of etcd's own")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", action.Kind, err)
	}
	return nil
}

// Space is what a decision on room depends on, as far as etcd tells. Members are in the order of their names.
func (h *Health) Space() space.State {
	state := space.State{Full: h.Full, CompactedAt: h.CompactedAt}
	for i, m := range h.Members {
		if m.Listed {
			state.Members = append(state.Members, space.Member{
				Name: m.Name, Ordinal: i, Started: m.Started, Works: m.Answered && m.Follows, Leader: m.Leader,
				Size: m.DatabaseSize, InUse: m.DatabaseInUse, Quota: m.DatabaseQuota,
			})
		}
	}
	return state
}

// compact drops all versions of keys but the newest, and waits until their pages are free.
func compact(ctx context.Context, client *clientv3.Client) error {
	head, err := client.Get(ctx, noKey, clientv3.WithCountOnly())
	if err != nil {
		return err
	}
	_, err = client.Compact(ctx, head.Header.Revision, clientv3.WithCompactPhysical())
	if errors.Is(err, rpctypes.ErrCompacted) {
		return nil
	}
	return err
}

// defragment writes a member's file anew, once the member has dropped the old versions that etcd was told to drop. Each does so in its own
// time. The client reaches that member alone.
func defragment(ctx context.Context, client *clientv3.Client, member Address) error {
	// A physical compaction waits for those before it, also one at a revision that is compacted. There is nothing before the first revision.
	if _, err := client.Compact(ctx, 1, clientv3.WithCompactPhysical()); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return err
	}
	_, err := client.Defragment(ctx, member.Client)
	return err
}

// disarm ends the alarms NOSPACE, and no other.
func disarm(ctx context.Context, client *clientv3.Client) error {
	alarms, err := client.AlarmList(ctx)
	if err != nil {
		return err
	}
	for _, alarm := range alarms.Alarms {
		if alarm.Alarm != etcdserverpb.AlarmType_NOSPACE {
			continue
		}
		if _, err := client.AlarmDisarm(ctx, &clientv3.AlarmMember{MemberID: alarm.MemberID, Alarm: alarm.Alarm}); err != nil {
			return err
		}
	}
	return nil
}

// compactedAt is the revision of an etcd that has no version of a key but the newest; 0 for one that has.
func compactedAt(ctx context.Context, client *clientv3.Client) (int64, error) {
	head, err := client.Get(ctx, noKey, clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	revision := head.Header.Revision
	if revision < 2 {
		return revision, nil
	}
	_, err = client.Get(ctx, noKey, clientv3.WithCountOnly(), clientv3.WithRev(revision-1))
	if errors.Is(err, rpctypes.ErrCompacted) {
		return revision, nil
	}
	return 0, err
}
