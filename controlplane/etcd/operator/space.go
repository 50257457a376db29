package operator

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/space"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
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
	return decision{act: func(ctx context.Context) (string, error) { return c.makeRoom(ctx, action) }, within: etcd.RoomTimeout}, nil
}

// spaceState is all that the next step depends on, as etcd and the host cluster have it now.
func (c *cluster) spaceState(ctx context.Context, health *etcd.Health) (space.State, error) {
	state := space.State{Full: health.Full, Compacted: health.Compacted, Quota: "spec.etcd." + c.Cluster.Field + ".quotaBackendSize"}
	found, err := c.belongings(ctx)
	if err != nil {
		return state, err
	}
	for _, m := range health.Members {
		if !m.Listed {
			continue
		}
		member := space.Member{
			Name: m.Name, Ordinal: c.ordinal(m.Name), Started: m.Started, Works: m.Answered && m.Follows, Leader: m.Leader,
			Size: m.DatabaseSize, InUse: m.DatabaseInUse, Quota: m.DatabaseQuota,
		}
		storage := c.Cluster.Spec(&c.Input).Storage
		if claim := found.claims[m.Name]; claim != nil {
			member.Volume = claim.Status.Capacity.Storage().Value()
		} else if storage.Type == controlplanev1.EtcdStorageEmptyDir && storage.Size != nil {
			member.Volume = storage.Size.Value() // Kubelet evicts a pod that takes more.
		}
		if member.Quota == 0 {
			member.Quota = c.quotaOf(m.Name, found.pods)
		}
		state.Members = append(state.Members, member)
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
