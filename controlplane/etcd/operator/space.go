package operator

import (
	"context"
	"maps"
	"slices"
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
			Rewritten: c.operator.rewritten.lately(c.key(), m.Name, c.operator.clock.Now()),
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

// rewritten is when the files of members were written anew, and when old versions were dropped. A program that starts anew knows
// of nothing, and at worst a file is written once more.
type rewritten struct {
	lock sync.Mutex
	of   map[background.Key]*rewrites
}

// rewrites are those of one etcd cluster.
type rewrites struct {
	files     map[string][]time.Time
	compacted time.Time
}

const (
	// rewritePeriod and rewritesEach bound how often a file is written anew to find out what is in use: a full etcd whose keys
	// are deleted all the time is compacted all the time.
	rewritePeriod = time.Hour
	rewritesEach  = 2
)

// lately reports whether what a member says of its file is true: it was written anew since old versions were dropped, or often
// enough.
func (r *rewritten) lately(of background.Key, member string, now time.Time) bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	known := r.of[of]
	if known == nil {
		return false
	}
	files := slices.DeleteFunc(known.files[member], func(at time.Time) bool { return now.Sub(at) >= rewritePeriod })
	known.files[member] = files
	return len(files) >= rewritesEach || len(files) > 0 && files[len(files)-1].After(known.compacted)
}

// note remembers a step.
func (r *rewritten) note(of background.Key, action space.Action, now time.Time) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.of == nil {
		r.of = map[background.Key]*rewrites{}
	}
	known := r.of[of]
	if known == nil {
		known = &rewrites{files: map[string][]time.Time{}}
		r.of[of] = known
	}
	switch action.Kind {
	case space.Compact:
		known.compacted = now
	case space.Defragment:
		known.files[action.Member] = append(known.files[action.Member], now)
	}
}

// forget drops what is known of an object.
func (r *rewritten) forget(object client.ObjectKey) {
	r.lock.Lock()
	defer r.lock.Unlock()
	maps.DeleteFunc(r.of, func(of background.Key, _ *rewrites) bool { return of.Object == object })
}
