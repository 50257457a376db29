package controllers

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/deletion"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=list;delete

// formerEvents is what is left of the etcd with the events that a person wants to be founded anew.
type formerEvents struct {
	pods   []string
	claims []*corev1.PersistentVolumeClaim
	// says is what its end waits for, for people.
	says string
}

// left reports whether anything is.
func (f *formerEvents) left() bool { return len(f.pods)+len(f.claims) > 0 }

// readFormerEvents looks for pods and volumes that are older than spec.etcd.events.foundAnewAt, until none is left. Then it takes status
// from the members' files, as what status says may be of the former etcd. Files of the former etcd mean that the new one is yet to be
// founded. Files of the new one name its members, which a status that was lost does not. It runs before the steps, which read status
// side by side. It asks the API server: a cache that lacks a former pod would let two etcds run. See
// docs/decisions/etcd.md#events-begin-anew-by-a-time.
func (r *Reconciler) readFormerEvents(ctx context.Context, s *scope) error {
	asked := s.controlPlane.Spec.Etcd.Events.FoundAnewAt
	status := etcdclusters.Status(s.controlPlane, names.EtcdEvents)
	if asked.IsZero() || asked.Equal(&status.RestoredAt) || s.controlPlane.Spec.Etcd.EventsInData() {
		return nil
	}
	if asked.After(r.Clock.Now()) { // New pods would be older than it, too.
		s.note(fmt.Errorf("spec.etcd.events.foundAnewAt is %s, which is yet to come: set it to a time that has passed", asked.UTC().Format(time.RFC3339)))
		return nil
	}
	byComponent, err := hostpods.List(ctx, s.host.Live, s.key)
	if err != nil {
		return err
	}
	claims, err := operator.VolumeClaims(ctx, s.host.Live, s.key, names.EtcdEvents)
	if err != nil {
		return err
	}
	pods := byComponent[names.EtcdEvents]
	for i := range pods {
		if pods[i].CreationTimestamp.Before(&asked) {
			s.formerEvents.pods = append(s.formerEvents.pods, pods[i].Name)
		}
	}
	for i := range claims {
		if claims[i].CreationTimestamp.Before(&asked) {
			s.formerEvents.claims = append(s.formerEvents.claims, &claims[i])
		}
	}
	if s.formerEvents.left() {
		return nil
	}
	found, err := s.findEtcd(ctx, etcdcomponent.Events)
	if err != nil {
		return err
	}
	if found == nil {
		found = &controlplanev1.EtcdClusterStatus{Name: etcdclusters.Name(names.EtcdEvents), Bootstrapped: ptr.To(false)}
	}
	found.RestoredAt = asked
	etcdclusters.SetStatus(s.controlPlane, *found)
	return nil
}

// stops reports whether nothing may run of an etcd cluster, for it is founded anew.
func (s *scope) stops(component string) bool {
	return s.rebuild.stops(component) || component == names.EtcdEvents && s.formerEvents.left()
}

// stopFormerEvents stops the former etcd with the events, and then deletes its volumes. Each reconcile takes the step that is next.
func stopFormerEvents(ctx context.Context, s *scope) flow.Result {
	former := &s.formerEvents
	switch {
	case !former.left():
		return flow.Done()
	case len(former.pods) > 0:
		if err := deletion.Stop(ctx, s.host, s.key, map[string]client.Object{names.EtcdEvents: &appsv1.StatefulSet{}}); err != nil {
			return flow.Failed(err)
		}
		former.says = fmt.Sprintf("pods %s have yet to stop. If the host node of a pod is gone for good, delete its Node object", strings.Join(former.pods, ", "))
	default:
		var deleted []string
		for _, claim := range former.claims {
			if err := deleteClaim(ctx, s, claim); err != nil {
				return flow.Failed(err)
			}
			deleted = append(deleted, claim.Name)
		}
		former.says = fmt.Sprintf("volume claims %s are deleted", strings.Join(deleted, ", "))
	}
	return flow.Waiting(names.EtcdEvents + " is founded anew: " + former.says)
}

// deleteClaim deletes a volume claim, unless it is on its way.
func deleteClaim(ctx context.Context, s *scope, claim *corev1.PersistentVolumeClaim) error {
	if claim.DeletionTimestamp != nil {
		return nil
	}
	if err := s.host.Client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete volume claim %s: %w", client.ObjectKeyFromObject(claim), err)
	}
	return nil
}
