package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/backups"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/secrets"
)

// ensureBackup keeps the Secret from which members of the data etcd learn how they are backed up, which snapshot a new one
// begins with, and whose data must not start again. A backup that cannot be is no reason to stop: the condition EtcdBackedUp
// says why. A snapshot that cannot be had is: etcd must not begin with nothing in its place.
func (r *Reconciler) ensureBackup(ctx context.Context, s *scope) flow.Result {
	of := s.backupSecret()
	spec, seeded := s.controlPlane.Spec.Etcd.Backup, etcdclusters.Seeded(s.controlPlane, names.EtcdData)
	if spec == nil && !seeded && !s.rebuild.Ever(s.controlPlane) {
		return flow.DoneOrFailed(s.store.Host.DeleteFiles(ctx, of))
	}
	if r.EtcdAgentImage == "" {
		if s.backup.Problem = backups.NoAgent; seeded {
			return flow.Waiting(backups.NoAgent)
		}
		return r.keepBackup(ctx, s)
	}
	present, err := s.store.Host.ReadFiles(ctx, of)
	if err != nil {
		return flow.Failed(err)
	}
	files, err := backups.KeyFiles(s.keys)
	if err != nil {
		return flow.Failed(err)
	}
	begin, err := r.restorer().Begin(ctx, r.restoreFacts(s), s.rebuild.Progress, present)
	s.rebuild.Progress = begin.Progress
	if err != nil {
		return flow.Failed(err)
	}
	if begin.Missing != "" {
		return flow.Waiting(begin.Missing)
	}
	maps.Copy(files, begin.Files)
	var told backups.Told
	if spec != nil {
		told = r.backups().Tell(ctx, r.backupFacts(s), present)
		s.backup.Problem = told.Problem
	}
	return flow.DoneOrFailed(s.store.Host.WriteFiles(ctx, of, told.Beside(files, present, seeded)))
}

func (s *scope) backupSecret() secrets.Files {
	return secrets.Files{Cluster: s.key, Name: names.Backup(s.key.Name), Component: names.EtcdData, Owner: s.hostOwner()}
}

// keepBackup takes back what an etcd that was seen since begins with: a member that lost its volume would begin with it again.
func (r *Reconciler) keepBackup(ctx context.Context, s *scope) flow.Result {
	if etcdclusters.Seeded(s.controlPlane, names.EtcdData) {
		return flow.Done()
	}
	of := s.backupSecret()
	present, err := s.store.Host.ReadFiles(ctx, of)
	if err != nil || present == nil {
		return flow.DoneOrFailed(err)
	}
	return flow.DoneOrFailed(s.store.Host.WriteFiles(ctx, of, backups.WithoutSeed(present)))
}

// seedGone reports whether no member can begin with a snapshot any more. Before that no member is replaced.
func (s *scope) seedGone() bool {
	return s.controlPlane.Spec.Etcd.Restore == nil && !s.rebuild.Ever(s.controlPlane) ||
		slices.ContainsFunc(s.outcomes, func(o flow.Outcome) bool { return o.Name == names.StepBackup && o.Done() })
}

// observeBackup asks members for their snapshots, has them take those that are wanted, and keeps an object for each one.
func (r *Reconciler) observeBackup(ctx context.Context, s *scope) error {
	agents := r.agents(s)
	if agents == nil {
		r.backups().Withdraw(s.controlPlane)
		nobody := "no member of its control plane can be asked now"
		if s.controlPlane.Spec.Etcd.Backup == nil {
			nobody = fmt.Sprintf("spec.etcd.backup of KOKControlPlane %s is not set, and without it no member deletes there: set it again", s.controlPlane.Name)
		}
		return r.backups().End(ctx, s.controlPlane, nobody)
	}
	seen, asked, err := r.backups().Observe(ctx, agents)
	if !asked {
		s.probing = true
	}
	seen.Problem = s.backup.Problem
	s.backup = seen
	return err
}

// agents tells how to ask the agents of members. It returns nil while no member has an agent, or none can be reached yet.
func (r *Reconciler) agents(s *scope) *backups.Facts {
	if s.controlPlane.Spec.Etcd.Backup == nil || s.keys == nil || len(s.input.Addresses) == 0 || !runs(s.controlPlane) {
		return nil
	}
	return r.backupFacts(s)
}

func (r *Reconciler) backups() *backups.Keeper {
	return &backups.Keeper{Client: r.Client, Live: r.APIReader, Prober: r.prober, Clock: r.Clock}
}

func (r *Reconciler) backupFacts(s *scope) *backups.Facts {
	facts := &backups.Facts{
		ControlPlane: s.controlPlane, Cluster: s.key, Keys: s.keys, Settled: s.settled(),
		HostCluster: s.host.Identity, Members: backups.Members(&s.input, s.host.Dial),
	}
	if runs(s.controlPlane) {
		facts.UID = r.tenants().Of(s.controlPlane, s.keys).UID()
	}
	return facts
}
