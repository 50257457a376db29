package controllers

import (
	"context"
	"errors"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters/discovery"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/restore"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
)

// restoring is what a reconcile knows of a restore in place: how far it has come, and what it waits for, for people.
type restoring struct {
	restore.Progress
	says string
}

func (r *restoring) asked() bool { return r.Asked() }

// foundingEvents is what a reconcile knows of an etcd with events that is founded anew: what is left of the former one, and what
// its end waits for, for people.
type foundingEvents struct {
	restore.FormerEvents
	says string
}

// readRestore reads how far a restore in place has come.
func (r *Reconciler) readRestore(ctx context.Context, s *scope) (err error) {
	s.rebuild.Progress, err = restore.Read(ctx, r.restoreFacts(s))
	return err
}

// applyRestore makes status and renderings follow the record, before any step runs.
func (s *scope) applyRestore() {
	if data, changed := s.rebuild.Status(s.controlPlane); changed {
		etcdclusters.SetStatus(s.controlPlane, data)
	}
	s.input.Spec.Etcd.Restore = s.rebuild.Rendered(s.controlPlane, s.input.Spec.Etcd.Restore)
}

// restoreInPlace founds the data etcd anew when a person asks for it.
func (r *Reconciler) restoreInPlace(ctx context.Context, s *scope) flow.Result {
	step := r.restorer().InPlace(ctx, r.restoreFacts(s), s.rebuild.Progress)
	s.rebuild = restoring{step.Progress, step.Says}
	s.note(step.Refused)
	return step.Result
}

// recoverEtcd puts back what status lost about etcd clusters.
func recoverEtcd(ctx context.Context, s *scope) error {
	if events, changed := s.rebuild.EventsStatus(s.controlPlane); changed {
		etcdclusters.SetStatus(s.controlPlane, events)
	}
	found, err := discovery.Unknown(ctx, s.host.Live, s.controlPlane, s.key)
	if err != nil {
		return err
	}
	s.controlPlane.Status.Etcd = append(s.controlPlane.Status.Etcd, found...)
	return nil
}

// recoverVersions puts back the versions that status lost, because an upgrade may be under way. A control plane without pods has no
// versions.
func recoverVersions(s *scope) {
	if len(s.controlPlane.Status.Versions) == 0 {
		status.SetVersions(s.controlPlane, s.snapshot.Pods)
	}
}

// readFormerEvents looks for what is left of an etcd with events that is founded anew, and whether it has to be.
func (r *Reconciler) readFormerEvents(ctx context.Context, s *scope) (err error) {
	s.formerEvents.FormerEvents, s.rebuild.Progress, err = r.restorer().ReadFormerEvents(ctx, r.restoreFacts(s), s.rebuild.Progress)
	s.note(s.formerEvents.Refused)
	if s.formerEvents.Status != nil {
		etcdclusters.SetStatus(s.controlPlane, *s.formerEvents.Status)
	}
	return err
}

// stopFormerEvents stops the former etcd with the events, and then deletes its volumes.
func (r *Reconciler) stopFormerEvents(ctx context.Context, s *scope) (result flow.Result) {
	result, s.formerEvents.says = s.formerEvents.Stop(ctx, r.restoreFacts(s))
	return result
}

// stops reports whether nothing of an etcd cluster may run, because it is founded anew.
func (s *scope) stops(component string) bool {
	return s.rebuild.Stops(component) || s.formerEvents.Stops(component)
}

func (r *Reconciler) restorer() *restore.Restorer {
	return &restore.Restorer{
		Management: r.Client, Backups: r.backups(), Clock: r.Clock, AgentImage: r.EtcdAgentImage, EndOperator: r.etcdOperator.Forget,
	}
}

func (r *Reconciler) restoreFacts(s *scope) *restore.Facts {
	return &restore.Facts{
		ControlPlane: s.controlPlane, Cluster: s.key, Host: s.host, HostOwner: s.hostOwner(), Input: &s.input, Keys: s.keys, Agents: r.agents(s),
		Unrendered: errors.Join(s.refused, s.unsupported),
	}
}
