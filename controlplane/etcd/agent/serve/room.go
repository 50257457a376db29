package serve

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/snapshot"
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

// makeRoom helps a full etcd to take writes again, while the manager does not ask. It decides on one step, and takes it if the step is
// this agent's. See docs/decisions/etcd.md#a-full-database-gets-room-by-itself.
func (a *agent) makeRoom(ctx context.Context) error {
	if !a.alone() {
		return nil
	}
	config, err := a.Client.Config()
	if err != nil {
		return err
	}
	listed, err := listMembers(ctx, a.Endpoint, config)
	if err != nil {
		return err
	}
	members := addressesOf(listed)
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
	a.rewrites.Note(action, state.CompactedAt, a.Now())
	a.Log.Info("made room in a full etcd", "step", action.Kind, "reason", action.Reason)
	return nil
}

// isOwn reports whether the agent of a member takes a step. The agent of the leader takes the steps that are of the whole etcd. The agent
// of each member writes the file of that member anew. All agents decide alike, so that exactly one of them takes a step.
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

// spaceState is all that the next step depends on. An agent knows two things of its own member alone: how much room the volume has, and
// whether the file was written anew.
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
		m.Rewritten = a.rewrites.Lately(m.Name, state.CompactedAt, a.Now())
		free, err := snapshot.FreeBytes(a.DataDir)
		if err != nil {
			return state, err
		}
		m.Volume = m.Size + free
	}
	return state, nil
}

// addressesOf are how clients reach each member that has started.
func addressesOf(listed []*etcdserverpb.Member) map[string]etcd.Address {
	members := map[string]etcd.Address{}
	for _, m := range listed {
		if m.Name != "" && len(m.ClientURLs) > 0 {
			members[m.Name] = etcd.Address{Client: m.ClientURLs[0]}
		}
	}
	return members
}
