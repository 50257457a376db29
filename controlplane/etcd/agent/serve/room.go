package serve

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/space"
)

// aloneAfter is how long the manager has not asked before agents make room in a full etcd themselves. It asks once a minute.
const aloneAfter = 5 * time.Minute

// heardOf notes that the manager asked.
func (a *agent) heardOf() {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.heard = a.Now()
}

// alone reports whether the manager has not been heard from for a while: the link to it may be cut.
func (a *agent) alone() bool {
	a.lock.Lock()
	defer a.lock.Unlock()
	return a.Now().Sub(a.heard) >= aloneAfter
}

// makeRoom takes the next step that has a full etcd take writes again, if it is this agent's and the manager is not heard from. See
// docs/decisions/etcd.md#a-full-database-gets-room-by-itself.
func (a *agent) makeRoom(ctx context.Context) error {
	if !a.alone() {
		return nil
	}
	config, err := a.Client.Config()
	if err != nil {
		return err
	}
	members, err := memberAddresses(ctx, clientv3.Config{Endpoints: []string{a.Endpoint}, TLS: config, DialTimeout: listTimeout, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	health, err := etcd.Check(ctx, members, config)
	if err != nil {
		return err
	}
	if health.Err != nil || !health.Full {
		return health.Err
	}
	state, err := a.spaceState(health)
	if err != nil {
		return err
	}
	action := space.Decide(state)
	if !isOwn(action, state, a.Member) {
		a.Log.Info("etcd is full, and what is next is not this member's to do", "next", action.Kind, "of", action.Member, "reason", action.Reason)
		return nil
	}
	if err := etcd.MakeRoom(ctx, action, members, config); err != nil {
		return err
	}
	a.rewrites.Note(action, a.Now())
	a.Log.Info("made room in a full etcd", "step", action.Kind, "reason", action.Reason)
	return nil
}

// isOwn reports whether a step is for the agent of this member: the leader's takes those of the whole etcd, and each one that of its own
// member's file. All decide alike, so that one of them does it.
func isOwn(action space.Action, state space.State, member string) bool {
	for _, m := range state.Members {
		if m.Name != member {
			continue
		}
		switch action.Kind {
		case space.Defragment:
			return action.Member == member
		case space.Compact, space.Disarm:
			return m.Leader
		}
	}
	return false
}

// spaceState is all that the next step depends on. Only of its own member an agent knows how much room the volume has, and whether the
// file was written anew.
func (a *agent) spaceState(health *etcd.Health) (space.State, error) {
	state := health.Space()
	for i := range state.Members {
		m := &state.Members[i]
		if m.Quota == 0 {
			m.Quota = a.Quota // Etcd 3.5 does not tell it.
		}
		if m.Name != a.Member {
			continue
		}
		m.Rewritten = a.rewrites.Lately(m.Name, a.Now())
		free, err := freeBytes(a.DataDir)
		if err != nil {
			return state, err
		}
		m.Volume = m.Size + free
	}
	return state, nil
}

// freeBytes is the room that a file system has for more.
func freeBytes(path string) (int64, error) {
	var found unix.Statfs_t
	if err := unix.Statfs(path, &found); err != nil {
		return 0, fmt.Errorf("look how much room %s has: %w", path, err)
	}
	return int64(found.Bavail) * found.Bsize, nil //nolint:gosec // No volume has exabytes.
}

// memberAddresses are how clients reach each member that has started.
func memberAddresses(ctx context.Context, config clientv3.Config) (map[string]etcd.Address, error) {
	client, err := clientv3.New(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of etcd at %s: %w", config.Endpoints[0], err)
	}
	defer client.Close() //nolint:errcheck // It was only read.
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list, err := client.MemberList(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask etcd at %s for its members: %w", config.Endpoints[0], err)
	}
	members := map[string]etcd.Address{}
	for _, m := range list.Members {
		if m.Name != "" && len(m.ClientURLs) > 0 {
			members[m.Name] = etcd.Address{Client: m.ClientURLs[0]}
		}
	}
	return members, nil
}
