package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/exit"
)

// foundEvents has the etcd with the events founded anew, and waits until it works.
func (r *inPlaceRestorer) foundEvents(ctx context.Context, of *controlplanev1.KOKControlPlane) error {
	key := client.ObjectKeyFromObject(of)
	if of.Spec.Etcd.EventsInData() {
		return fmt.Errorf("KOKControlPlane %s has no etcd with events alone, for spec.etcd.events.mode is %s: restore the data etcd, from a snapshot or by --%s", key, controlplanev1.EtcdEventsInData, flagSurvivor)
	}
	r.cluster.Say("The etcd with the events of KOKControlPlane %s will be founded anew, empty. All events are lost, and nothing else.", key)
	if err := r.cluster.Agree(ctx, r.yes); err != nil {
		return err
	}
	asked := metav1.NewTime(time.Now().Truncate(time.Second))
	if last := etcdclusters.EventsFoundedAt(of); !asked.After(last.Time) { // The clock of this machine may be behind.
		asked = metav1.NewTime(last.Add(time.Second))
	}
	if err := editSpec(ctx, r.client, of, func(spec *controlplanev1.KOKControlPlaneSpec) { spec.Etcd.Events.FoundAnewAt = asked }); err != nil {
		return fmt.Errorf("ask for it in KOKControlPlane %s: %w", key, err)
	}
	r.cluster.Say("It is asked for: spec.etcd.events.foundAnewAt is %s", asked.UTC().Format(time.RFC3339))
	if r.timeout == 0 {
		return nil
	}
	return r.waitForEvents(ctx, of, asked)
}

// waitForEvents reads the control plane until its new etcd with the events works.
func (r *inPlaceRestorer) waitForEvents(ctx context.Context, of *controlplanev1.KOKControlPlane, asked metav1.Time) error {
	key := client.ObjectKeyFromObject(of)
	told, err := r.watch(ctx, of, func() (string, error) { return eventsWaitFor(of, asked), nil })
	switch {
	case err == nil:
		r.cluster.Say("The etcd with the events of KOKControlPlane %s works, as etcd cluster %s", key, etcdclusters.Status(of, names.EtcdEvents).ClusterID)
		r.sayWhoIsAway(of, names.EtcdEvents)
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("the etcd with the events of KOKControlPlane %s is founded anew all the same; %s status %s shows how far it is: %w", key, r.cluster.Program, r.name, ctx.Err())
	case errors.Is(err, context.DeadlineExceeded):
		return &exit.BadNews{Message: fmt.Sprintf("the etcd with the events of KOKControlPlane %s does not work after %s: %s", key, r.timeout, told)}
	default:
		return err
	}
}

// eventsWaitFor is what the etcd with the events waits for since it is to be founded anew; empty when it works. A majority of its members is
// enough: the host node of another one may be off for long.
func eventsWaitFor(of *controlplanev1.KOKControlPlane, asked metav1.Time) string {
	status := etcdclusters.Status(of, names.EtcdEvents)
	over := !status.RestoredAt.Before(&asked)
	recovering, reconciled := recovers(of, names.EtcdEvents), conditions.GetMessage(of, conditionsv1.ReconciledCondition)
	switch {
	case recovering != "" && (!over || conditions.GetReason(of, conditionsv1.EtcdRecoveringCondition) == conditionsv1.RestoringReason):
		return recovering
	case !over && strings.Contains(reconciled, "foundAnewAt"):
		return reconciled
	case !over:
		return "the controller has yet to begin"
	}
	ready, all := membersReady(status)
	if needed := all/2 + 1; ready < needed {
		return fmt.Sprintf("%d of its %d members are ready, and it needs %d", ready, all, needed)
	}
	if status.ClusterID == "" {
		return "nobody saw it answer yet"
	}
	return ""
}

// membersReady are how many members of an etcd are ready, of all.
func membersReady(status controlplanev1.EtcdClusterStatus) (ready, all int32) {
	return ptr.Deref(status.ReadyReplicas, 0), ptr.Deref(status.Replicas, 0)
}
