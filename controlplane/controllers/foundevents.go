package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/deletion"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=list;delete

// foundsEvents reports whether the etcd with the events is to be founded anew, and it is not known that this was done.
func (s *scope) foundsEvents() bool {
	asked := s.controlPlane.Spec.Etcd.Events.FoundAnewAt
	done := etcdclusters.Status(s.controlPlane, names.EtcdEvents).RestoredAt
	return !asked.IsZero() && !asked.Equal(&done)
}

// stops reports whether nothing may run of an etcd cluster: it is to be founded anew.
func (s *scope) stops(component string) bool {
	return s.rebuild.stops(component) || component == names.EtcdEvents && s.foundsEvents()
}

// foundEventsAnew has nothing run of the etcd with the events, and deletes its volumes, when a person asks for it. What is older than
// the request is of the former etcd, whoever looks, and however often. What follows is as for a new control plane.
func (r *Reconciler) foundEventsAnew(ctx context.Context, s *scope) flow.Result {
	asked := s.controlPlane.Spec.Etcd.Events.FoundAnewAt
	if !s.foundsEvents() {
		return flow.Done()
	}
	if asked.After(r.Clock.Now()) { // What is made until then would be taken for older.
		s.note(fmt.Errorf("spec.etcd.events.foundAnewAt is %s, which is yet to come: set it to a time that has passed", asked.UTC().Format(time.RFC3339)))
		return flow.Done()
	}
	pods, claims, err := s.ofEvents(ctx)
	if err != nil {
		return flow.Failed(err)
	}
	if former := olderThan(asked, pods); len(former) > 0 {
		if err := deletion.Stop(ctx, s.host, s.key, map[string]client.Object{names.EtcdEvents: &appsv1.StatefulSet{}}); err != nil {
			return flow.Failed(err)
		}
		s.foundingEvents = fmt.Sprintf("pods %s stop. One on a host node that is gone for good stops when its Node object is deleted", strings.Join(former, ", "))
		return flow.Waiting(names.EtcdEvents + " is founded anew: " + s.foundingEvents)
	}
	if former := olderThan(asked, claims); len(former) > 0 {
		if err := s.deleteClaims(ctx, claims, former); err != nil {
			return flow.Failed(err)
		}
		s.foundingEvents = fmt.Sprintf("volume claims %s are deleted", strings.Join(former, ", "))
		return flow.Waiting(names.EtcdEvents + " is founded anew: " + s.foundingEvents)
	}
	status := etcdclusters.Status(s.controlPlane, names.EtcdEvents)
	status.Name, status.RestoredAt = etcdclusters.Name(names.EtcdEvents), asked
	if len(pods)+len(claims) == 0 { // Else its members are new ones, and status was lost.
		status.Bootstrapped, status.Members, status.ClusterID = ptr.To(false), nil, ""
	}
	etcdclusters.SetStatus(s.controlPlane, status)
	return flow.Done()
}

// ofEvents are the pods and volume claims of the etcd with the events, as the host cluster has them now: a cache that lacks one would
// have its data taken for new.
func (s *scope) ofEvents(ctx context.Context) (pods, claims []client.Object, err error) {
	byComponent, err := hostpods.List(ctx, s.host.Live, s.key)
	if err != nil {
		return nil, nil, err
	}
	for i := range byComponent[names.EtcdEvents] {
		pods = append(pods, &byComponent[names.EtcdEvents][i])
	}
	list := &corev1.PersistentVolumeClaimList{}
	if err := s.host.Live.List(ctx, list, client.InNamespace(s.key.Namespace), client.MatchingLabels(names.ComponentLabels(s.key, names.EtcdEvents))); err != nil {
		return nil, nil, fmt.Errorf("list the volume claims of %s: %w", names.EtcdEvents, err)
	}
	for i := range list.Items {
		claims = append(claims, &list.Items[i])
	}
	return pods, claims, nil
}

// deleteClaims deletes the claims of these names.
func (s *scope) deleteClaims(ctx context.Context, claims []client.Object, of []string) error {
	for _, claim := range claims {
		if !slices.Contains(of, claim.GetName()) || claim.GetDeletionTimestamp() != nil {
			continue
		}
		if err := s.host.Client.Delete(ctx, claim, client.Preconditions{UID: ptr.To(claim.GetUID())}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete volume claim %s: %w", client.ObjectKeyFromObject(claim), err)
		}
	}
	return nil
}

// olderThan are the names of objects that were made before a time.
func olderThan(asked metav1.Time, objects []client.Object) []string {
	var names []string
	for _, object := range objects {
		if made := object.GetCreationTimestamp(); made.Before(&asked) {
			names = append(names, object.GetName())
		}
	}
	return names
}
