package controllers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/adoption"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/backups"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/events"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/history"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/nodekeys"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rendering"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/revision"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/snapshot"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
	providerversion "github.com/kube-on-kube/cluster-api-provider-kok/internal/version"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

// scope is what one reconcile of one control plane knows. Steps fill it in the order of the graph:
// a step reads only what steps before it wrote.
type scope struct {
	cluster      *clusterv1.Cluster
	controlPlane *controlplanev1.KOKControlPlane
	key          client.ObjectKey
	host         *Host
	store        *pki.Store
	revisions    *revision.Store
	// history is what is to be recorded of spec.
	history history.Decision
	// snapshot is what was read of the host cluster at the start.
	snapshot *snapshot.Snapshot

	input components.Input
	keys  *pki.KeyMaterial
	// release is what goes with the version.
	release versions.Release
	// unsupported is why nothing new can be rendered; what is applied is kept up all the same.
	unsupported error
	// refused is why the patches of the spec cannot be applied; until they can, no component adopts a new
	// rendering.
	refused error
	// problem is what would keep a control plane like this from being made.
	problem error
	// notes are what else only a person can put right, in the order of the steps that found it, which may differ.
	notes []string
	// rolloutAfter is spec.rollout.after once it has passed: older renderings are replaced.
	rolloutAfter time.Time

	// backup is what is known of the backup of the data etcd, rebuild of a restore of it in place.
	backup  backups.Seen
	rebuild restoring
	// snapshotKeepers are the members that keep a verified snapshot on volumes of their own.
	snapshotKeepers []string
	// rotations are how far rotations of keys have come.
	rotations []status.Rotation
	// nodes is what nodes of the tenant have to have of the cluster CA; nil while that does not rotate.
	nodes *nodekeys.Wanted
	// formerEvents is what is left of an etcd with events that is founded anew.
	formerEvents foundingEvents

	lock sync.Mutex
	// live holds the workloads of components as they were after apply, by component.
	live map[string]client.Object
	// probing is true when a probe has no result yet.
	probing bool
	// nextRenewal is when the first certificate is due, firstEnd when the first one ends.
	nextRenewal, firstEnd time.Time
	outcomes              []flow.Outcome
	// deeds are what Events are made of.
	deeds *events.Deeds
}

// gather takes the snapshot that steps decide from.
func (s *scope) gather(ctx context.Context) (err error) {
	if s.snapshot, err = snapshot.Take(ctx, s.host.Client, s.key); err != nil {
		return err
	}
	s.revisions.Known = s.snapshot.Revisions
	return nil
}

// newScope is what a reconcile starts from.
func newScope(cluster *clusterv1.Cluster, controlPlane *controlplanev1.KOKControlPlane, table *versions.Table, host *Host, store *pki.Store, now time.Time) *scope {
	s := &scope{
		cluster:      cluster,
		controlPlane: controlPlane,
		key:          client.ObjectKeyFromObject(cluster),
		host:         host,
		store:        store,
		live:         map[string]client.Object{},
		deeds:        &events.Deeds{},
	}
	s.revisions = &revision.Store{
		Client: host.Client, Live: host.Live, Owner: s.hostOwner(), Adopted: func(a revision.Adoption) { s.deeds.Adopt(a) },
		Provider: providerversion.Get().GitVersion, Again: adoption.TakenAgain(controlPlane.Spec.Rollout),
	}
	if problems := rendering.ValidatePatches(controlPlane.Spec, table, nil, field.NewPath("spec", "patches")); len(problems) > 0 {
		s.refused = problems.ToAggregate()
	}
	s.input = components.Input{
		Cluster:   s.key,
		Spec:      components.Reduce(controlPlane.Spec),
		Network:   components.NetworkOf(cluster),
		Addresses: map[string]string{},

		APIServerReplicas: ptr.Deref(controlPlane.Spec.Replicas, controlplanev1.DefaultAPIServerReplicas),
	}
	s.render(versions.Normalize(controlPlane.Spec.Version), table)
	if after := controlPlane.Spec.Rollout.After; !after.IsZero() && !after.After(now) {
		s.rolloutAfter = after.Time
		s.input.RolloutAfter = after.UTC().Format(time.RFC3339)
	}
	return s
}

// render makes a version the one that components and addons are rendered for.
func (s *scope) render(version string, table *versions.Table) {
	release, err := table.Release(version)
	if s.unsupported = nil; err != nil {
		s.unsupported = fmt.Errorf("spec.version: %w", err)
	}
	s.release, s.input.Version, s.revisions.Version = release, version, version
	s.input.EtcdImageTag, s.input.KonnectivityImageTag = release.Etcd, release.Konnectivity
}

// upgrading reports whether a pod of the control plane was last seen at another version than the one that steps render for,
// which is not that of spec while chooseVersion postpones it.
func (s *scope) upgrading() bool {
	return slices.ContainsFunc(s.controlPlane.Status.Versions, func(v clusterv1.StatusVersion) bool { return v.Version != s.input.Version })
}

// owner is the reference to the control plane for objects in the management cluster.
func (s *scope) owner() *metav1.OwnerReference {
	return metav1.NewControllerRef(s.controlPlane, controlplanev1.GroupVersion.WithKind("KOKControlPlane"))
}

// hostOwner is the reference for objects in the host cluster, nil when that is another one.
func (s *scope) hostOwner() *metav1.OwnerReference {
	if !s.host.Own {
		return nil
	}
	return s.owner()
}

func (s *scope) remember(component string, workload client.Object) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.live[component] = workload
}

// applied is the workload of a component that this reconcile applied; nil for none.
func (s *scope) applied(component string) client.Object {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.live[component]
}

// note adds what only a person can put right while everything goes on.
func (s *scope) note(problem error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if problem != nil {
		s.notes = append(s.notes, problem.Error())
	}
}

// renewAt notes that a certificate is due at a time.
func (s *scope) renewAt(at time.Time) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if !at.IsZero() && (s.nextRenewal.IsZero() || at.Before(s.nextRenewal)) {
		s.nextRenewal = at
	}
}

// endsAt notes that a certificate ends at a time; zero for none.
func (s *scope) endsAt(at time.Time) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if !at.IsZero() && (s.firstEnd.IsZero() || at.Before(s.firstEnd)) {
		s.firstEnd = at
	}
}

// keepLastStatus reports whether the stored status stays until each probe has a result. A result comes within seconds and wakes the
// reconcile. So a manager that starts writes nothing to settled tenants. Their first bad results do not count: see background.Task.
func (s *scope) keepLastStatus() bool {
	return s.probing && s.settled()
}

// settled reports whether the tenant's API ever answered, and the stored status is of the present spec.
func (s *scope) settled() bool {
	return conditions.IsTrue(s.controlPlane, conditionsv1.InitializedCondition) && s.controlPlane.Status.ObservedGeneration == s.controlPlane.Generation
}

// statusInput is what the status is computed from beside what is observed.
func (s *scope) statusInput() *status.Input {
	return &status.Input{
		ControlPlane: s.controlPlane, Cluster: s.key, OwnHost: s.host.Own, Outcomes: s.outcomes,
		Rotations: s.rotations,
		Problem:   s.problem, Unsupported: s.unsupported, Refused: s.refused, Notes: s.notes, Restoring: map[string]string{names.EtcdData: s.rebuild.says, names.EtcdEvents: s.formerEvents.says},
	}
}
