package controllers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/backups"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

// observeBackup asks members for their snapshots, has them take those that people want, and keeps an object for each one.
func (r *Reconciler) observeBackup(ctx context.Context, s *scope) error {
	if !hasAgents(s) {
		r.prober.Withdraw(backupKey(s))
		return nil
	}
	records, err := r.recordsOf(ctx, s)
	if err != nil {
		return err
	}
	answer, asked := r.askMembers(s, records)
	if !asked {
		s.probing = true
	}
	s.backup.Report, s.backup.Err = answer.said.Report, answer.err
	return r.keepRecords(ctx, s, backups.Reconciled(s.controlPlane, records, s.backup.Report, r.Clock.Now()))
}

// hasAgents reports whether members have agents that can be asked.
func hasAgents(s *scope) bool {
	return s.controlPlane.Spec.Etcd.Backup != nil && s.keys != nil && len(s.input.Addresses) > 0 && runs(s.controlPlane)
}

func backupKey(s *scope) probe.Key {
	return probe.Key{Object: client.ObjectKeyFromObject(s.controlPlane), Kind: backupProbeKind}
}

// recordsOf are the objects of the snapshots of a control plane.
func (r *Reconciler) recordsOf(ctx context.Context, s *scope) ([]controlplanev1.KOKEtcdSnapshot, error) {
	list := &controlplanev1.KOKEtcdSnapshotList{}
	if err := r.Client.List(ctx, list, client.InNamespace(s.controlPlane.Namespace)); err != nil {
		return nil, fmt.Errorf("list the KOKEtcdSnapshots of the control plane: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(o controlplanev1.KOKEtcdSnapshot) bool { return o.Spec.ControlPlaneName != s.controlPlane.Name }), nil
}

// askMembers returns what members said last, or false before the first time.
func (r *Reconciler) askMembers(s *scope, records []controlplanev1.KOKEtcdSnapshot) (backupAnswer, bool) {
	result, asked := r.prober.Probe(backupKey(s), r.backupProbe(s, backups.Wanted(records, r.Clock.Now())))
	answer, _ := result.Value.(backupAnswer) // Nil after a panic.
	return answer, asked
}

// volumesOf are the volumes of members that told of them within the last minute or so. asked is false until members with agents were asked
// for the first time.
func (r *Reconciler) volumesOf(ctx context.Context, s *scope) (volumes map[string]backup.Volume, asked bool, err error) {
	if !hasAgents(s) {
		return nil, true, nil
	}
	records, err := r.recordsOf(ctx, s)
	if err != nil {
		return nil, false, err
	}
	answer, asked := r.askMembers(s, records)
	return answer.said.Volumes, asked, nil
}

// backupProbe asks all members at once.
func (r *Reconciler) backupProbe(s *scope, wanted []time.Time) probe.Probe {
	members := backupMembers(s)
	config, configErr := s.keys.Only(pki.EtcdCA).ClientTLS(r.Clock, pki.EtcdCA, names.ManagerUser, nil, "")
	var last *backup.Report
	return probe.Probe{
		Identity: fmt.Sprintf("%s %v %s", s.host.Identity, addressesOf(members), s.keys.ClientIdentity(pki.EtcdCA)), Prompt: fmt.Sprint(wanted), Timeout: backupTimeout, Settled: s.settled(),
		Do: func(ctx context.Context) probe.Result {
			if configErr != nil {
				return probe.Result{Problem: errortext.Steady(configErr)}
			}
			said, err := backups.Ask(ctx, members, config)
			if err != nil {
				why := errortext.Steady(err)
				return probe.Result{Problem: why, Value: backupAnswer{backups.Answer{Report: last}, why}}
			}
			report := said.Report
			last = report
			open := missingSlots(wanted, report)
			var failed []error
			for _, slot := range open {
				if !report.Working.Equal(slot) {
					failed = append(failed, backups.Take(ctx, backups.OnDutyFirst(members, report), config, slot))
				}
			}
			problem := ""
			if len(open) > 0 {
				problem = fmt.Sprintf("%d snapshots are being taken", len(open))
			}
			if err := errors.Join(failed...); err != nil {
				problem += ": " + errortext.Steady(err)
			}
			return probe.Result{Problem: problem, Value: backupAnswer{said: said}}
		},
	}
}

// backupAnswer is what members said last, and why nobody answers now. Of volumes it has what was said now alone.
type backupAnswer struct {
	said backups.Answer
	err  string
}

// missingSlots are those of which the store has no verified or refused snapshot.
func missingSlots(wanted []time.Time, report *backup.Report) []time.Time {
	var missing []time.Time
	for _, slot := range wanted {
		done := false
		for _, s := range report.Snapshots {
			done = done || s.Slot.Equal(slot) && (!s.Verified.IsZero() || s.Reason != "")
		}
		if !done {
			missing = append(missing, slot)
		}
	}
	return missing
}

// backupMembers are how the agents of members are reached.
func backupMembers(s *scope) []backups.Member {
	port := etcdcomponent.Data.Ports(&s.input).Backup
	var members []backups.Member
	for _, name := range etcdcomponent.Data.Members(&s.input) {
		address := s.input.Addresses[name]
		if address == "" {
			continue
		}
		m := backups.Member{Name: name, Address: net.JoinHostPort(address, fmt.Sprint(port))}
		if s.host.Dial != nil {
			pod := client.ObjectKey{Namespace: s.key.Namespace, Name: name}
			m.Dial = func(ctx context.Context) (net.Conn, error) { return s.host.Dial(ctx, pod, port) }
		}
		members = append(members, m)
	}
	return members
}

func addressesOf(members []backups.Member) []string {
	addresses := make([]string, len(members))
	for i, m := range members {
		addresses[i] = m.Address
	}
	return addresses
}

// keepRecords makes the objects of snapshots say what the store has.
func (r *Reconciler) keepRecords(ctx context.Context, s *scope, records backups.Records) error {
	var errs []error
	for _, object := range records.Create {
		object.OwnerReferences = []metav1.OwnerReference{*s.owner()}
		object.Labels = map[string]string{clusterv1.ClusterNameLabel: s.key.Name}
		if err := r.Client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			errs = append(errs, fmt.Errorf("create KOKEtcdSnapshot %s: %w", object.Name, err))
		}
	}
	for _, object := range records.Delete {
		if err := r.Client.Delete(ctx, object, client.Preconditions{UID: &object.UID}); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("delete KOKEtcdSnapshot %s: %w", object.Name, err))
		}
	}
	return errors.Join(append(errs, r.describeRecords(ctx, records.Update))...)
}

// describeRecords writes the status of snapshots.
func (r *Reconciler) describeRecords(ctx context.Context, objects []*controlplanev1.KOKEtcdSnapshot) error {
	var errs []error
	for _, object := range objects {
		if err := r.Client.Status().Update(ctx, object); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("write the status of KOKEtcdSnapshot %s: %w", object.Name, err))
		}
	}
	return errors.Join(errs...)
}

// snapshotToControlPlane finds the control plane that a snapshot is of.
func snapshotToControlPlane(_ context.Context, object client.Object) []reconcile.Request {
	snapshot, ok := object.(*controlplanev1.KOKEtcdSnapshot)
	if !ok || snapshot.Spec.ControlPlaneName == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: snapshot.Namespace, Name: snapshot.Spec.ControlPlaneName}}}
}
