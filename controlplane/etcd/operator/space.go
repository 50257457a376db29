package operator

import (
	"context"
	"maps"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/space"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/background"
)

// decideSpace decides on the next step that has a full etcd take writes again.
func (c *cluster) decideSpace(ctx context.Context, health *etcd.Health) (decision, error) {
	state, err := c.spaceState(ctx, health)
	if err != nil {
		return decision{}, err
	}
	action := space.Decide(state)
	switch action.Kind {
	case space.None, space.Wait, space.NeedsDecision:
		return decision{waitsFor: action.Reason}, nil
	}
	return decision{act: func(ctx context.Context) (string, error) { return c.makeRoom(ctx, action, state.CompactedAt) }, within: etcd.RoomTimeout}, nil
}

// spaceState is all that the next step depends on, as etcd and the host cluster have it now.
func (c *cluster) spaceState(ctx context.Context, health *etcd.Health) (space.State, error) {
	state := health.Space()
	state.Quota = "spec.etcd." + c.Cluster.Field + ".quotaBackendSize"
	found, err := c.belongings(ctx)
	if err != nil {
		return state, err
	}
	for i := range state.Members {
		member := &state.Members[i]
		member.Ordinal = c.ordinal(member.Name)
		member.Rewritten = c.operator.rewritten.lately(c.key(), member.Name, state.CompactedAt, c.operator.clock.Now())
		storage := c.Cluster.Spec(&c.Input).Storage
		if claim := found.claims[member.Name]; claim != nil {
			member.Volume = claim.Status.Capacity.Storage().Value()
		} else if storage.Type == controlplanev1.EtcdStorageEmptyDir && storage.Size != nil {
			member.Volume = storage.Size.Value() // Kubelet evicts a pod that takes more.
		}
		if member.Quota == 0 {
			member.Quota = c.quotaOf(member.Name, found.pods)
		}
	}
	return state, nil
}

// quotaOf is the quota of a member that does not tell it, as etcd 3.5 does not: the one that its pod started with.
func (c *cluster) quotaOf(member string, pods []corev1.Pod) int64 {
	if i := hostpods.Index(pods, member); i >= 0 {
		if quota, err := strconv.ParseInt(pods[i].Annotations[etcdcomponent.QuotaAnnotation], 10, 64); err == nil {
			return quota
		}
	}
	return c.Cluster.Spec(&c.Input).QuotaBackendSize.Value()
}

// rewritten is what space.Rewrites knows of each etcd cluster.
type rewritten struct {
	lock sync.Mutex
	of   map[background.Key]*space.Rewrites
}

// lately is what space.Rewrites knows of a member.
func (r *rewritten) lately(of background.Key, member string, compactedAt int64, now time.Time) bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	known := r.of[of]
	return known != nil && known.Lately(member, compactedAt, now)
}

// note remembers a step.
func (r *rewritten) note(of background.Key, action space.Action, compactedAt int64, now time.Time) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.of == nil {
		r.of = map[background.Key]*space.Rewrites{}
	}
	if r.of[of] == nil {
		r.of[of] = &space.Rewrites{}
	}
	r.of[of].Note(action, compactedAt, now)
}

// forget drops what is known of an object.
func (r *rewritten) forget(object client.ObjectKey) {
	r.lock.Lock()
	defer r.lock.Unlock()
	maps.DeleteFunc(r.of, func(of background.Key, _ *space.Rewrites) bool { return of.Object == object })
}
