package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/membership"
)

// Change does to a cluster's members what was decided by a health that was checked a moment ago. What was
// done already is no error. What etcd itself refuses is one: the quorum would be at risk, or a learner still
// lacks data. It takes at most Timeout.
func Change(ctx context.Context, kind membership.Kind, name string, health *Health, members map[string]Address, config *tls.Config) error {
	if _, known := members[name]; !known {
		return fmt.Errorf("%s of etcd member %s: its Service has no address yet", kind, name)
	}
	client, err := dial(ctx, health.voters(kind, members), config)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // What was written through it has been answered.
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	if err := change(ctx, client, kind, members[name].Peer, health.id(name)); err != nil {
		return fmt.Errorf("%s of etcd member %s: %w", kind, name, err)
	}
	return nil
}

func change(ctx context.Context, client *clientv3.Client, kind membership.Kind, peer string, id uint64) error {
	var err error
	switch kind {
	case membership.AddLearner:
		if _, err = client.MemberAddAsLearner(ctx, []string{peer}); errors.Is(err, rpctypes.ErrPeerURLExist) {
			return nil
		}
	case membership.Promote:
		if _, err = client.MemberPromote(ctx, id); errors.Is(err, rpctypes.ErrMemberNotLearner) {
			return nil
		}
	case membership.MoveLeader:
		_, err = client.MoveLeader(ctx, id)
	case membership.Remove:
		if _, err = client.MemberRemove(ctx, id); errors.Is(err, rpctypes.ErrMemberNotFound) {
			return nil
		}
	default:
		return errors.New("is none of etcd's own")
	}
	return err
}

// voters are the members that a change is sent to: those that vote and answer, whatever they report, such as an alarm. Only
// the leader gives away its lead.
func (h *Health) voters(kind membership.Kind, members map[string]Address) []Address {
	var addresses []Address
	for _, m := range h.Members {
		if m.Listed && !m.Learner && m.Answered && (m.Leader || kind != membership.MoveLeader) {
			addresses = append(addresses, members[m.Name])
		}
	}
	return addresses
}

func (h *Health) id(name string) uint64 {
	for _, m := range h.Members {
		if m.Name == name {
			return m.ID
		}
	}
	return 0
}
