package backups

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/certificates"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

// ProbeKind is the kind of the probe that asks members for their snapshots. Its value is an Answer.
const ProbeKind = "backup"

// Observe asks members for their snapshots, has them take those that are wanted, such as one after a rotation of keys, and keeps an object for
// each one. asked is false until the first result of the probe.
func (k *Keeper) Observe(ctx context.Context, of *Facts) (seen Seen, asked bool, err error) {
	objects, err := k.records(ctx, client.ObjectKeyFromObject(of.ControlPlane))
	if err != nil {
		return Seen{}, true, err
	}
	answer, asked := k.ask(of, objects)
	now := k.Clock.Now()
	last, err := rotatedOf(of)
	follows := followingOf(of, last, objects, answer, now)
	by := keepersOf(of.ControlPlane, of.Members, answer)
	changes := reconciled(of.ControlPlane, objects, answer, by, now)
	if follows.create != nil {
		changes.Create = append(changes.Create, follows.create)
	}
	return Seen{Report: answer.Report, Err: answer.Err, Silent: answer.whoIsSilent(), Missing: follows.missing, Unread: unreadOn(objects, answer.Report)}, asked, errors.Join(
		err, k.keepEndings(ctx, endingsOf(of.ControlPlane, objects, answer, by, "", now)), k.keepRecords(ctx, of, changes),
	)
}

// Withdraw stops asking members that no longer have agents.
func (k *Keeper) Withdraw(controlPlane *controlplanev1.KOKControlPlane) {
	k.Prober.Withdraw(probeKey(controlPlane, ProbeKind))
}

// Ask returns what members said within about the last minute. asked is false until the first result of the probe.
func (k *Keeper) Ask(ctx context.Context, of *Facts) (answer Answer, asked bool, err error) {
	objects, err := k.records(ctx, client.ObjectKeyFromObject(of.ControlPlane))
	if err != nil {
		return Answer{}, false, err
	}
	answer, asked = k.ask(of, objects)
	return answer, asked, nil
}

// VerifiedOn are the members that keep a verified snapshot on volumes of their own, in order. Of a silent member it is what it kept before.
func (k *Keeper) VerifiedOn(ctx context.Context, controlPlane *controlplanev1.KOKControlPlane) ([]string, error) {
	if !copied(controlPlane) {
		return nil, nil
	}
	objects, err := k.records(ctx, client.ObjectKeyFromObject(controlPlane))
	return verifiedOn(objects), err
}

// records lists the objects of the snapshots of a control plane.
func (k *Keeper) records(ctx context.Context, controlPlane client.ObjectKey) ([]controlplanev1.KOKEtcdSnapshot, error) {
	list := &controlplanev1.KOKEtcdSnapshotList{}
	if err := k.Client.List(ctx, list, client.InNamespace(controlPlane.Namespace)); err != nil {
		return nil, fmt.Errorf("list the KOKEtcdSnapshots of the control plane: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(o controlplanev1.KOKEtcdSnapshot) bool { return o.Spec.ControlPlaneName != controlPlane.Name }), nil
}

// ask returns what members said last. It returns false until the first result of the probe.
func (k *Keeper) ask(of *Facts, objects []controlplanev1.KOKEtcdSnapshot) (Answer, bool) {
	result, asked := k.Prober.Probe(of.probe(ProbeKind), k.membersProbe(of, wantedSlots(objects, k.Clock.Now()), unwantedSlots(of.ControlPlane, objects)))
	answer, _ := result.Value.(Answer) // Nil after a panic.
	return answer, asked
}

// membersProbe asks all members at once.
func (k *Keeper) membersProbe(of *Facts, wanted, unwanted []time.Time) probe.Probe {
	members := of.Members
	config, configErr := certificates.Issuer{Keys: of.Keys.Only(pki.EtcdCA), Clock: k.Clock}.ClientTLS(pki.EtcdCA, names.ManagerUser, nil, "")
	var last *backup.Report
	return probe.Probe{
		Identity: fmt.Sprintf("%s %v %s", of.HostCluster, addressesOf(members), certificates.ClientIdentity(of.Keys, pki.EtcdCA)), Prompt: fmt.Sprint(wanted, unwanted), Timeout: timeout, Settled: of.Settled,
		Do: func(ctx context.Context) probe.Result {
			if configErr != nil {
				return probe.Result{Problem: errortext.Steady(configErr)}
			}
			said, err := askAll(ctx, members, config)
			if err != nil {
				why := errortext.Steady(err)
				return probe.Result{Problem: why, Value: Answer{Report: last, Err: why}}
			}
			last = said.Report
			return probe.Result{Problem: said.request(ctx, members, config, wanted, unwanted, k.Clock.Now()), Value: said}
		},
	}
}

// missingSlots are the wanted slots for which the store has neither a verified nor a refused snapshot.
func missingSlots(wanted []time.Time, report *backup.Report) []time.Time {
	return slices.DeleteFunc(slices.Clone(wanted), func(slot time.Time) bool {
		return slices.ContainsFunc(report.Snapshots, func(s backup.Snapshot) bool {
			return s.Slot.Equal(slot) && (!s.Verified.IsZero() || s.Reason != "")
		})
	})
}

// mayGo are the unwanted slots whose snapshots the store has, and need not be kept. Where members keep snapshots on their own volumes, only
// those that no member can read may go: a member would copy any other one back.
func mayGo(unwanted []time.Time, report *backup.Report, now time.Time) []time.Time {
	return slices.DeleteFunc(slices.Clone(unwanted), func(slot time.Time) bool {
		there := slices.ContainsFunc(report.Snapshots, func(s backup.Snapshot) bool { return s.Slot.Equal(slot) && (!report.Own || s.Unread()) })
		return !there || backup.WhyKept(report.Snapshots, slot, now, report.Own) != ""
	})
}

// unreadOn are the names of the objects of snapshots that no member can read, where these are on volumes of members.
func unreadOn(objects []controlplanev1.KOKEtcdSnapshot, report *backup.Report) []string {
	var unread []string
	for i := range objects {
		if report != nil && report.Own && isUnread(report, slotOfObject(&objects[i])) {
			unread = append(unread, objects[i].Name)
		}
	}
	slices.Sort(unread)
	return unread
}

// isUnread reports whether the store has a snapshot of a slot that cannot be read.
func isUnread(report *backup.Report, slot time.Time) bool {
	return slices.ContainsFunc(report.Snapshots, func(s backup.Snapshot) bool { return s.Slot.Equal(slot) && s.Unread() })
}

func addressesOf(members []Member) []string {
	addresses := make([]string, len(members))
	for i, m := range members {
		addresses[i] = m.Address
	}
	return addresses
}

// keepRecords makes the objects of snapshots say what the store has.
func (k *Keeper) keepRecords(ctx context.Context, of *Facts, records recordChanges) error {
	var errs []error
	for _, object := range records.Create {
		object.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(of.ControlPlane, controlplanev1.GroupVersion.WithKind("KOKControlPlane"))}
		object.Labels = map[string]string{clusterv1.ClusterNameLabel: of.Cluster.Name}
		if err := k.Client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			errs = append(errs, fmt.Errorf("create KOKEtcdSnapshot %s: %w", object.Name, err))
		}
	}
	for _, object := range records.Delete {
		// It was not a person who deleted it: nothing goes with it.
		if err := k.holdRecord(ctx, object, false); err != nil {
			errs = append(errs, err)
			continue
		}
		if err := k.Client.Delete(ctx, object, client.Preconditions{UID: &object.UID}); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("delete KOKEtcdSnapshot %s: %w", object.Name, err))
		}
	}
	return errors.Join(append(errs, k.describeRecords(ctx, records.Update))...)
}

// describeRecords writes the status of snapshots.
func (k *Keeper) describeRecords(ctx context.Context, objects []*controlplanev1.KOKEtcdSnapshot) error {
	var errs []error
	for _, object := range objects {
		if err := k.Client.Status().Update(ctx, object); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("write the status of KOKEtcdSnapshot %s: %w", object.Name, err))
		}
	}
	return errors.Join(errs...)
}
