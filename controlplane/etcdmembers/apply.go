package etcdmembers

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/adoption"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/volumes"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/restore"
)

// Members are those of a control plane's etcd clusters, as a reconcile knows them when a step begins.
type Members struct {
	*adoption.Adopter
	// Restore is how far a restore in place of the data etcd has come.
	Restore restore.Progress
	Clock   clock.PassiveClock
}

// Apply applies one etcd cluster. Its configuration files follow every change of membership, and so does
// the number of pods; volumes follow the size in spec. All else of its workload changes only when a new rendering is adopted.
func (m *Members) Apply(ctx context.Context, cluster etcdcomponent.Cluster) flow.Result {
	component := cluster.Component
	files, err := m.files(ctx, cluster)
	if err != nil {
		return flow.Failed(err)
	}
	if _, err := m.ApplyAll(ctx, files); err != nil {
		return flow.Failed(err)
	}
	if result := m.stoppingPods(ctx, component); !result.Done() {
		return result
	}
	objects, err := m.renderingOf(ctx, cluster, false)
	if err != nil {
		return adoption.RenderingFailed(err)
	}
	if err := m.resizeVolumes(ctx, cluster, objects); err != nil {
		return flow.Failed(err)
	}
	if result := m.ApplyAs(ctx, component, objects); !result.Done() {
		return result
	}
	if etcdclusters.Seeded(m.ControlPlane, component) {
		return flow.Waiting(component + " has restored its snapshot, and was not observed yet")
	}
	return m.heldWhileLosing(ctx, cluster)
}

// Keep keeps up the workload of an etcd cluster while a step before waits or fails. It writes no configuration files: they need
// certificates and addresses, which may be what fails.
func (m *Members) Keep(ctx context.Context, cluster etcdcomponent.Cluster) flow.Result {
	if known, err := m.Revisions.Newest(ctx, m.Cluster, cluster.Component); err != nil || len(known) == 0 {
		return flow.DoneOrFailed(err)
	}
	if result := m.stoppingPods(ctx, cluster.Component); !result.Done() {
		return result
	}
	stored, err := m.renderingOf(ctx, cluster, true)
	if err != nil {
		return adoption.RenderingFailed(err)
	}
	if err := m.resizeVolumes(ctx, cluster, stored); err != nil {
		return flow.Failed(err)
	}
	return m.ApplyAs(ctx, cluster.Component, stored)
}

// heldWhileLosing lets an upgrade wait for an etcd cluster whose pods it replaces, but not while members go. Any
// other change does not wait for that: API servers must be told of those that go. A cluster that keeps its pods does not block others.
func (m *Members) heldWhileLosing(ctx context.Context, cluster etcdcomponent.Cluster) flow.Result {
	component := cluster.Component
	if !m.Upgrading || !etcdclusters.EvenVoters(m.ControlPlane, component) || etcdclusters.Volatile(m.ControlPlane, component) || m.WhyHeld() != "" {
		return flow.Done()
	}
	stored, err := m.Revisions.Newest(ctx, m.Cluster, component)
	if err != nil {
		return flow.Failed(err)
	}
	replaces, err := m.replacesPods(ctx, cluster.AsComponent(), asBootstrapped(m.Input, cluster, stored), stored)
	if !replaces || err != nil {
		return flow.DoneOrFailed(err)
	}
	return flow.Waiting(fmt.Sprintf("%s takes no change while it loses members: see %s", component, conditionsv1.ScalingDownCondition))
}

// resizeVolumes makes the volume claims of an etcd cluster ask for the size in spec, if the StatefulSet among objects has another one.
// Nobody can change a StatefulSet's size, so the claims of new members begin with it. It notes what the host cluster refuses.
func (m *Members) resizeVolumes(ctx context.Context, cluster etcdcomponent.Cluster, objects []client.Object) error {
	present, wanted := volumeSize(objects), etcdclusters.Spec(m.ControlPlane, cluster.Component).Storage.Size
	err := m.resize(ctx, cluster, volumes.Data, "spec.etcd."+cluster.Field+".storage.size", present, wanted)
	if own, spec := snapshotVolumes(objects), m.ControlPlane.Spec.Etcd.Backup; err == nil && own != nil && spec != nil && spec.Store.PerMember != nil {
		err = m.resize(ctx, cluster, volumes.Snapshots, "spec.etcd.backup.store.perMember.size", own.Size, spec.Store.PerMember.Size)
	}
	return err
}

// resize makes the volume claims of one kind ask for a size, if the StatefulSet has another one.
func (m *Members) resize(ctx context.Context, cluster etcdcomponent.Cluster, kind volumes.Kind, field string, present, wanted *resource.Quantity) error {
	if present == nil || wanted == nil || present.Cmp(*wanted) == 0 {
		return nil
	}
	problems, err := volumes.Resize(ctx, m.Host, m.Cluster, cluster.Component, kind, field, *wanted)
	for _, problem := range problems {
		m.Note(problem)
	}
	return err
}
