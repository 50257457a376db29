package restore

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/rebuild"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/recovery/seen"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// lookAtSeed looks whether the first member of the new etcd cannot begin with its snapshot. Then the controller asks for another beginning,
// if it asked for this one by itself; else, and when all were tried, people are told. It asks the API server: a pod of an earlier beginning,
// which a cache may still have, had another snapshot.
func (r *Restorer) lookAtSeed(ctx context.Context, of *Facts, p Progress) (Progress, error) {
	if p.Record.Begins == nil || p.Record.Begins.Snapshot == "" {
		return p, nil
	}
	pods, err := hostpods.List(ctx, of.Host.Live, of.Cluster)
	if err != nil {
		return p, err
	}
	i := hostpods.Index(pods[names.EtcdData], p.Record.Seed)
	if i < 0 {
		return p, nil
	}
	why := refusesSeed(&pods[names.EtcdData][i])
	if why == "" {
		return p, nil
	}
	p.refusal = p.Record.CannotBegin(why)
	if p.automatic == nil {
		return p, nil
	}
	nodes := r.heardNodes(of, map[string]string{})
	for _, m := range p.Record.Members {
		if err := nodes.look(ctx, m.Host); err != nil {
			return p, err
		}
	}
	candidates, err := r.fit(ctx, of, func(name string) bool {
		return !slices.Contains(of.ControlPlane.Spec.Etcd.GivenUp, name) && slices.ContainsFunc(p.Record.Members, func(m rebuild.Member) bool {
			_, heard := nodes.heard[m.Host]
			return m.Name == name && heard
		})
	})
	if err != nil {
		return p, err
	}
	if ask, member := p.Record.Another(candidates); ask != (rebuild.Ask{}) {
		p.request, p.automatic, p.seed = p.Record.NextRequest(r.Clock.Now()), &ask, member
	}
	return p, nil
}

// refusals are the reasons that lie in a snapshot, or in a member's copy of it. A store that is away, or a volume without room, is none.
var refusals = []string{
	string(archive.Truncated), string(archive.Tampered), string(archive.Foreign), string(archive.TooNew), string(archive.KeyMissing), string(archive.HashDiffers),
	facts.SeedNotVerified, facts.SeedNotFound,
}

// refusesSeed says why prepare cannot restore the snapshot that a member begins with; empty while it may. A first failure is not believed:
// a connection that broke off may look like it.
func refusesSeed(pod *corev1.Pod) string {
	found := seen.Facts(pod)
	if found == nil || seen.FailedStarts(pod) < 2 {
		return ""
	}
	reason, _, _ := strings.Cut(found.Seed, ":")
	if !slices.Contains(refusals, reason) {
		return ""
	}
	return found.Seed
}
