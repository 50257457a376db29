package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/backups"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/rebuild"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/recovery"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/recovery/seen"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// askByItself has the controller ask for a restore in place, as spec.etcd.recovery allows, when members are proven to have lost so much
// that no quorum can return. It reads again what that depends on: conditions, which led here, may be old. refused tells people why the
// controller does not ask although it may; nothing is wrong if both are empty.
func (r *Restorer) askByItself(ctx context.Context, of *Facts, p Progress) (asking Progress, refused, err error) {
	pods, err := hostpods.List(ctx, of.Host.Live, of.Cluster)
	if err != nil {
		return p, nil, err
	}
	told := backups.Answer{}
	if of.Agents != nil {
		if told, _, err = r.Backups.Ask(ctx, of.Agents); err != nil {
			return p, nil, err
		}
	}
	members, err := r.formerMembers(ctx, of, names.EtcdData, pods[names.EtcdData], told)
	if err != nil {
		return p, nil, err
	}
	snapshot, err := r.newestFit(ctx, of, members)
	if err != nil {
		return p, nil, err
	}
	ask, reason := rebuild.Choose(members, snapshot, of.ControlPlane.Spec.Etcd.Data.Storage.Type == controlplanev1.EtcdStorageEmptyDir)
	until := rebuild.PausedUntil(p.Record.Restore, r.Clock.Now())
	switch {
	case reason != "":
		return p, errors.New("spec.etcd.recovery: " + reason), nil
	case ask == rebuild.Ask{}:
		return p, nil, nil
	case !until.IsZero():
		return p, paused(names.EtcdData, p.Record.Restore, until), nil
	}
	p.request, p.automatic = rebuild.Stamp(r.Clock.Now()), &ask
	return p, nil, nil
}

// askForEventsByItself has the controller ask for a new, empty etcd with the events, as spec.etcd.recovery allows, when members are proven to
// have lost so much that no quorum can return. The time, by which the former etcd is known from then on, is zero while the controller does
// not. refused tells people why it does not although it may. It writes nothing.
func (r *Restorer) askForEventsByItself(ctx context.Context, of *Facts, pods []corev1.Pod, claims []corev1.PersistentVolumeClaim) (at metav1.Time, refused, err error) {
	members, err := r.formerMembers(ctx, of, names.EtcdEvents, pods, backups.Answer{})
	if err != nil {
		return at, nil, err
	}
	founds, reason := rebuild.ChooseEmpty(members)
	last, now := rebuild.Stamp(etcdclusters.EventsFoundedAt(of.ControlPlane).Time), r.Clock.Now()
	until := rebuild.PausedUntil(last, now)
	switch {
	case reason != "":
		return at, fmt.Errorf("spec.etcd.recovery: %s: %s", names.EtcdEvents, reason), nil
	case !founds:
		return at, nil, nil
	case !until.IsZero():
		return at, paused(names.EtcdEvents, last, until), nil
	}
	seconds := metav1.NewTime(now.Truncate(time.Second)) // API servers count them.
	if newest := newestOf(pods, claims); !newest.Before(seconds.Time) {
		return at, clockBehind(newest, now), nil // Once all that is older is gone, it would be taken for a part of the new etcd.
	}
	return seconds, nil, nil
}

// newestOf returns when the newest of the pods and volume claims was made. It returns the zero time if there are no pods and no claims.
func newestOf(pods []corev1.Pod, claims []corev1.PersistentVolumeClaim) time.Time {
	made := []time.Time{{}}
	for i := range pods {
		made = append(made, pods[i].CreationTimestamp.Time)
	}
	for i := range claims {
		made = append(made, claims[i].CreationTimestamp.Time)
	}
	return slices.MaxFunc(made, time.Time.Compare)
}

// clockBehind says that pods or volumes of the etcd with the events were made at a time that the manager's clock has yet to reach. It is nil
// where the next reconcile comes later than that.
func clockBehind(newest, now time.Time) error {
	if newest.Sub(now) < time.Minute {
		return nil
	}
	return fmt.Errorf("spec.etcd.recovery: the controller founds %s anew after %s. By the host cluster's clock a pod or volume of it was made then, and the manager's clock is behind: set the clocks of both right",
		names.EtcdEvents, rebuild.Stamp(newest))
}

// paused says that an etcd is not founded anew by itself so soon after the last time.
func paused(component, last string, until time.Time) error {
	return fmt.Errorf("spec.etcd.recovery: %s was founded anew at %s, and lost its quorum again. Find out why members lose their data; it is founded anew again after %s, or when a person asks",
		component, last, rebuild.Stamp(until))
}

// formerMembers is what is known of the data of each member that etcd listed last. Whom a person gave up does not matter: that may be left
// from an earlier loss, and the member be back.
func (r *Restorer) formerMembers(ctx context.Context, of *Facts, component string, pods []corev1.Pod, told backups.Answer) ([]rebuild.Former, error) {
	nodes := r.heardNodes(of, map[string]string{})
	var members []rebuild.Former
	for _, listed := range etcdclusters.Status(of.ControlPlane, component).Members {
		m := rebuild.Former{
			Name: listed.Name, Votes: listed.State == controlplanev1.EtcdMemberVoter,
			LogTerm: told.Volumes[listed.Name].LogTerm, LogIndex: told.Volumes[listed.Name].LogIndex,
		}
		if i := hostpods.Index(pods, m.Name); i >= 0 {
			host := pods[i].Spec.NodeName
			if err := nodes.look(ctx, host); err != nil {
				return nil, err
			}
			_, heard := nodes.heard[host]
			m.Lost = heard && isProvenLost(&pods[i])
			m.Reached, m.Ready = heard && (m.Lost || !lostData(&pods[i])), heard && hostpods.Ready(&pods[i])
		}
		members = append(members, m)
	}
	return members, nil
}

// isProvenLost reports whether a member's data are gone for good. One that joins has none at first, and its etcd may end once.
func isProvenLost(pod *corev1.Pod) bool {
	data := seen.Data(pod)
	return data == recovery.Unreadable || data == recovery.Empty && seen.FailedStarts(pod) > 1
}

// newestFit is the newest snapshot of a control plane that can be restored in place; empty for none, and where spec does not let the
// controller take one by itself.
func (r *Restorer) newestFit(ctx context.Context, of *Facts, members []rebuild.Former) (string, error) {
	if of.ControlPlane.Spec.Etcd.Recovery != controlplanev1.EtcdRecoversAutomatically {
		return "", nil
	}
	fit, err := r.fit(ctx, of, func(name string) bool {
		return slices.ContainsFunc(members, func(m rebuild.Former) bool { return m.Reached && m.Name == name })
	})
	for _, c := range fit {
		if c.Shared || len(c.Members) > 0 {
			return c.Snapshot, err
		}
	}
	return "", err
}

// fit returns the snapshots of a control plane that can be restored in place, the newest first. It leaves out snapshots in the future.
// Where members keep snapshots on their own volumes, some may lack one.
func (r *Restorer) fit(ctx context.Context, of *Facts, reached func(member string) bool) ([]rebuild.Candidate, error) {
	snapshots := &controlplanev1.KOKEtcdSnapshotList{}
	if err := r.Management.List(ctx, snapshots, client.InNamespace(of.ControlPlane.Namespace)); err != nil {
		return nil, fmt.Errorf("list the KOKEtcdSnapshots of namespace %s: %w", of.ControlPlane.Namespace, err)
	}
	slices.SortStableFunc(snapshots.Items, func(a, b controlplanev1.KOKEtcdSnapshot) int { return -cmp.Compare(a.Status.Slot, b.Status.Slot) })
	own := of.ControlPlane.Spec.Etcd.Backup
	shared := own == nil || own.Store.PerMember == nil
	var fit []rebuild.Candidate
	for i := range snapshots.Items {
		if s := &snapshots.Items[i]; s.DeletionTimestamp.IsZero() && !isInFuture(s, r.Clock.Now()) && unfit(of, s) == "" {
			members := slices.DeleteFunc(slices.Clone(s.Status.Members), func(name string) bool { return !reached(name) })
			fit = append(fit, rebuild.Candidate{Snapshot: s.Name, Shared: shared, Members: members})
		}
	}
	return fit, nil
}

func isInFuture(snapshot *controlplanev1.KOKEtcdSnapshot, now time.Time) bool {
	slot, err := archive.ParseSlot(snapshot.Status.Slot)
	return err == nil && archive.IsInFuture(slot, now)
}
