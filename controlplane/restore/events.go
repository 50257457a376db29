package restore

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/deletion"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters/discovery"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=list;delete

// FormerEvents is what is left of the former etcd with the events, since it is to be founded anew.
type FormerEvents struct {
	pods []string
	// older are volume claims from before the time at which it is to be founded anew, and younger are other ones.
	older, younger []*corev1.PersistentVolumeClaim
	// Status is the new status of the etcd; nil while status stays as it is.
	Status *controlplanev1.EtcdClusterStatus
	// Refused tells people what is wrong with the request, or why nothing is done by itself; nil if nothing is wrong.
	Refused error
}

// left reports whether anything is left of the former etcd.
func (f *FormerEvents) left() bool { return len(f.pods)+len(f.older) > 0 }

// Stops reports whether nothing of a component may run, because it is the etcd with the events and something is left of the former one.
func (f *FormerEvents) Stops(component string) bool {
	return component == names.EtcdEvents && f.left()
}

// ReadFormerEvents looks for pods and volumes that are older than the time at which the etcd with the events is to be founded anew: a person
// gave it, or the controller recorded it. Once none is left, it makes the new status from the members' files, because the present status may
// still describe the former etcd. If the files are of the former etcd, the new one is yet to be founded. If they are of the new one, they name
// its members. It runs before the steps, because steps read status in parallel. It asks the API server: a cache that lacks a former pod would
// let two etcds run. See docs/decisions/etcd.md#events-begin-anew-by-a-time.
func (r *Restorer) ReadFormerEvents(ctx context.Context, of *Facts, p Progress) (former FormerEvents, _ Progress, err error) {
	at, asked := etcdclusters.EventsFoundedAt(of.ControlPlane), of.ControlPlane.Spec.Etcd.Events.FoundAnewAt
	status := etcdclusters.Status(of.ControlPlane, names.EtcdEvents)
	open := !at.Equal(&status.RestoredAt)
	switch {
	case of.ControlPlane.Spec.Etcd.EventsInData() || !open && !p.mayFoundEvents(of.ControlPlane):
		return former, p, nil
	case open && asked.After(r.Clock.Now()): // New pods would be older than it, too.
		former.Refused = fmt.Errorf("spec.etcd.events.foundAnewAt is %s, which is yet to come: set it to a time that has passed", asked.UTC().Format(time.RFC3339))
		return former, p, nil
	}
	pods, err := hostpods.List(ctx, of.Host.Live, of.Cluster)
	if err != nil {
		return former, p, err
	}
	claims, err := operator.VolumeClaims(ctx, of.Host.Live, of.Cluster, names.EtcdEvents, namesOf(status.Members))
	if err != nil {
		return former, p, err
	}
	if !open {
		if at, former.Refused, err = r.askForEventsByItself(ctx, of, pods[names.EtcdEvents], claims); err != nil || at.IsZero() {
			return former, p, err
		}
		if p, err = p.writeEvents(ctx, of, at); err != nil {
			return former, p, err
		}
	}
	former = formerEvents(at, pods[names.EtcdEvents], claims)
	former.Status, err = former.status(ctx, of, at)
	return former, p, err
}

// formerEvents is what is left of the etcd from before a time. While anything is older, nothing of the new etcd runs: younger pods and
// volumes are former ones, too, such as those of a member that was replaced after a time that a person wrote down earlier.
func formerEvents(at metav1.Time, pods []corev1.Pod, claims []corev1.PersistentVolumeClaim) (former FormerEvents) {
	older := false
	for i := range pods {
		former.pods = append(former.pods, pods[i].Name)
		older = older || pods[i].CreationTimestamp.Before(&at)
	}
	for i := range claims {
		if claims[i].CreationTimestamp.Before(&at) {
			former.older = append(former.older, &claims[i])
		} else {
			former.younger = append(former.younger, &claims[i])
		}
	}
	if !older && len(former.older) == 0 {
		return FormerEvents{}
	}
	return former
}

// status is the status of the etcd that is founded anew at a time.
func (f *FormerEvents) status(ctx context.Context, of *Facts, at metav1.Time) (*controlplanev1.EtcdClusterStatus, error) {
	if f.left() {
		status := etcdclusters.Status(of.ControlPlane, names.EtcdEvents)
		status.Name, status.Restoring = etcdclusters.Name(names.EtcdEvents), &controlplanev1.EtcdRestoringStatus{RequestedAt: at}
		if of.ControlPlane.Spec.Etcd.Events.FoundAnewAt.Before(&at) {
			status.Restoring.Automatic = ptr.To(true)
		}
		return &status, nil
	}
	found, err := discovery.Find(ctx, of.Host.Live, etcdcomponent.Events, etcdclusters.FoundedAt(at), of.Cluster)
	if err != nil {
		return nil, err
	}
	if found == nil {
		found = &controlplanev1.EtcdClusterStatus{Name: etcdclusters.Name(names.EtcdEvents), Bootstrapped: ptr.To(false)}
	}
	found.RestoredAt = at
	return found, nil
}

// Stop stops the former etcd with the events, and deletes its volumes, if anything is left of it. Each reconcile takes one step. The older
// volumes go last: without them nobody could tell that the younger ones are former, too. says tells people what the end of the former etcd
// waits for.
func (f *FormerEvents) Stop(ctx context.Context, of *Facts) (result flow.Result, says string) {
	claims := f.younger // Kubernetes keeps the volumes of running pods until these have stopped.
	if len(f.pods)+len(f.younger) == 0 {
		claims = f.older
	}
	var deleted []string
	for _, claim := range claims {
		if err := deleteClaim(ctx, of.Host.Client, claim); err != nil {
			return flow.Failed(err), ""
		}
		deleted = append(deleted, claim.Name)
	}
	says = fmt.Sprintf("volume claims %s are deleted", strings.Join(deleted, ", "))
	if len(f.pods) > 0 {
		if err := deletion.Stop(ctx, of.Host, of.Cluster, map[string]client.Object{names.EtcdEvents: &appsv1.StatefulSet{}}); err != nil {
			return flow.Failed(err), ""
		}
		says = fmt.Sprintf("pods %s have yet to stop. If the host node of a pod is gone for good, delete its Node object", strings.Join(f.pods, ", "))
	}
	return flow.Waiting(names.EtcdEvents + " is founded anew: " + says), says
}

// deleteClaim deletes a volume claim, unless its deletion has begun.
func deleteClaim(ctx context.Context, host client.Writer, claim *corev1.PersistentVolumeClaim) error {
	if claim.DeletionTimestamp != nil {
		return nil
	}
	if err := host.Delete(ctx, claim, client.Preconditions{UID: &claim.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete volume claim %s: %w", client.ObjectKeyFromObject(claim), err)
	}
	return nil
}
