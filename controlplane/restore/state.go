package restore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/backups"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/rebuild"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/recovery/seen"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// stateOf reads all that the next step of a restore depends on. It asks the host cluster's API server, because a cache may not know yet
// what runs.
func (r *Restorer) stateOf(ctx context.Context, of *Facts, p *Progress) (rebuild.State, error) {
	state := rebuild.State{Request: p.request, Record: p.Record, GivenUp: of.ControlPlane.Spec.Etcd.GivenUp, Heard: map[string]string{}}
	if p.automatic != nil && !p.Record.UnderWay() {
		state.GivenUp = nil // A person may have named them at an earlier loss.
	}
	state.ClusterID = etcdclusters.Status(of.ControlPlane, names.EtcdData).ClusterID
	begins := state.Record.Restore != state.Request
	if p.Founding() && !p.Founded(of.ControlPlane) {
		state.Refusal = p.refusal
		if state.ClusterID == state.Record.ClusterID {
			state.ClusterID = ""
		}
	}
	if p.Founding() && (!begins || p.Founded(of.ControlPlane)) {
		return state, nil
	}
	pods, err := hostpods.List(ctx, of.Host.Live, of.Cluster)
	if err != nil {
		return state, err
	}
	nodes := r.heardNodes(of, state.Heard)
	for component := range usersOfData(of.ControlPlane) {
		for i := range pods[component] {
			if pod := &pods[component][i]; !hostpods.Ended(pod) {
				state.Pods = append(state.Pods, rebuild.Pod{Name: pod.Name, Host: pod.Spec.NodeName})
				if err := nodes.look(ctx, pod.Spec.NodeName); err != nil {
					return state, err
				}
			}
		}
	}
	slices.SortFunc(state.Pods, func(a, b rebuild.Pod) int { return cmp.Compare(a.Name, b.Name) })
	for _, m := range state.Record.Members {
		if err := nodes.look(ctx, m.Host); err != nil {
			return state, err
		}
	}
	if !begins {
		return state, nil
	}
	return r.addNext(ctx, of, p, state, nodes, pods[names.EtcdData])
}

// addNext adds the record that a restore would begin with, and what is wrong with the request.
func (r *Restorer) addNext(ctx context.Context, of *Facts, p *Progress, state rebuild.State, nodes *heardNodes, pods []corev1.Pod) (rebuild.State, error) {
	former, asks := etcdclusters.Status(of.ControlPlane, names.EtcdData), p.asks(of.ControlPlane)
	listed := namesOf(former.Members)
	claimed, err := operator.HostsOfVolumes(ctx, of.Host.Live, of.Cluster, names.EtcdData, listed)
	if err != nil {
		return state, err
	}
	state.Next = rebuild.Record{Seed: cmp.Or(asks.Survivor, p.seed), Begins: &rebuild.Ask{Survivor: asks.Survivor, Snapshot: asks.Snapshot}, Automatic: p.automatic != nil, Voters: int(etcdclusters.Voters(of.ControlPlane, names.EtcdData))}
	for _, name := range listed {
		m := rebuild.Member{Name: name, Host: claimed[name]}
		if i := hostpods.Index(pods, m.Name); i >= 0 {
			if found := seen.Facts(&pods[i]); found != nil && found.ClusterID != "" {
				state.Next.Former = append(state.Next.Former, rebuild.Padded(found.ClusterID))
			}
			if node := pods[i].Spec.NodeName; node != "" {
				m.Host = node
			}
		}
		if err := nodes.look(ctx, m.Host); err != nil {
			return state, err
		}
		m.HostUID = nodes.uids[m.Host]
		state.Next.Members = append(state.Next.Members, m)
	}
	keepers, own := []string(nil), false
	if asks.Snapshot != "" {
		if keepers, own, state.Next.Slot, err = r.keepers(ctx, of, asks.Snapshot); err != nil {
			return state, err
		}
	}
	if state.Next.Seed == "" {
		state.Next.Seed = seedOf(of.Input, state, func(member string) bool { return !own || slices.Contains(keepers, member) })
	}
	state.Next.ClusterID = rebuild.ClusterID(etcdcomponent.Data.PeerURL(of.Input, state.Next.Seed), state.Request)
	var told backups.Answer
	if of.Agents != nil {
		asked := false
		if told, asked, err = r.Backups.Ask(ctx, of.Agents); err != nil {
			return state, err
		}
		if !asked {
			state.Unknown = "members are being asked how much room their volumes have"
		}
	}
	state.Problem, err = r.judge(ctx, of, asks, state, pods, told)
	return state, err
}

func namesOf(members []controlplanev1.EtcdMemberStatus) []string {
	all := make([]string, len(members))
	for i := range members {
		all[i] = members[i].Name
	}
	return all
}

// keepers are the members that have a snapshot on their volumes, and its slot. own is false where members share a store.
func (r *Restorer) keepers(ctx context.Context, of *Facts, name string) (keepers []string, own bool, slot string, err error) {
	spec := of.ControlPlane.Spec.Etcd
	own = spec.Backup != nil && spec.Backup.Store.PerMember != nil
	snapshot, key := &controlplanev1.KOKEtcdSnapshot{}, client.ObjectKey{Namespace: of.ControlPlane.Namespace, Name: name}
	if err := r.Management.Get(ctx, key, snapshot); client.IgnoreNotFound(err) != nil {
		return nil, own, "", fmt.Errorf("read KOKEtcdSnapshot %s: %w", key, err)
	}
	return snapshot.Status.Members, own, cmp.Or(snapshot.Spec.Slot, snapshot.Status.Slot), nil
}

// seedOf chooses the member that begins with a snapshot: the first one that can read it and whose host node is heard from, or else the first
// one.
func seedOf(in *components.Input, state rebuild.State, reads func(member string) bool) string {
	wanted := etcdcomponent.Data.Wanted(in)
	members, _ := state.FormerMembers()
	for _, name := range wanted {
		i := slices.IndexFunc(members, func(m rebuild.Member) bool { return m.Name == name })
		if i < 0 {
			continue
		}
		if _, heard := state.Heard[members[i].Host]; heard && reads(name) && !slices.Contains(state.GivenUp, name) {
			return name
		}
	}
	return wanted[0]
}

// heardNodes are the host nodes that matter to a restore, and which of them are heard from. Each is read once.
type heardNodes struct {
	live client.Reader
	now  time.Time
	// heard are the UIDs of the nodes that are heard from. uids are the UIDs of all nodes that exist.
	heard, uids map[string]string
}

// heardNodes begins with no node. Its look adds those that are heard from to the map.
func (r *Restorer) heardNodes(of *Facts, heard map[string]string) *heardNodes {
	return &heardNodes{live: of.Host.Live, now: r.Clock.Now(), heard: heard, uids: map[string]string{}}
}

// heardPatience is how long a host node must have been heard from before its word on pods is believed. Within this time kubelet stops the
// pods that were deleted meanwhile.
const heardPatience = time.Minute

// look reads a Node.
func (h *heardNodes) look(ctx context.Context, name string) error {
	if _, known := h.uids[name]; known || name == "" {
		return nil
	}
	node := &corev1.Node{}
	switch err := h.live.Get(ctx, client.ObjectKey{Name: name}, node); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read host node %s: %w", name, err)
	}
	h.uids[name] = string(node.UID)
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionUnknown && h.now.Sub(c.LastTransitionTime.Time) >= heardPatience {
			h.heard[name] = string(node.UID)
		}
	}
	return nil
}
