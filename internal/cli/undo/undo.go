// Package undo has the command kok undo, which takes the spec of a control plane back to a revision of its history.
package undo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"gomodules.xyz/jsonpatch/v2"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	specs "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/history"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/access"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/history"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

const long = `Take the spec of a control plane back to what it was in a revision ("kok history" shows them).

It shows how spec will differ, asks, and then edits spec as you would: webhooks judge the edit, and what it changes is rolled out.
Not taken back are replicas, which autoscalers write; the endpoint and the ports, which never change; and restores and rollouts that
were asked for. A minor version has no way back. Where the Cluster has a topology, the Cluster is the way back, and nothing is changed here.`

const example = `  # Take the last change back
  kok history blue
  kok undo blue --to 3

  # In a script
  kok undo blue --to 3 --yes`

// fieldManager is what the history calls who changed spec by this command.
const fieldManager = "kok-undo"

// New is the command undo.
func New(cluster *access.Cluster) *cobra.Command {
	u := &undoer{cluster: cluster}
	command := &cobra.Command{
		Use: "undo CLUSTER --to REVISION", Short: "Take the spec of a control plane back to a revision of its history", Long: long, Example: example,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cluster.CompleteOne(&clusterv1.ClusterList{}, true),
		RunE: func(command *cobra.Command, args []string) error {
			return cluster.Explain(u.run(command.Context(), args[0]))
		},
	}
	command.Flags().Int64Var(&u.to, "to", 0, "Number of the revision that spec becomes.")
	command.Flags().BoolVar(&u.yes, access.FlagYes, false, "Do not ask.")
	if err := command.MarkFlagRequired("to"); err != nil {
		panic(err) // It is a flag of this command.
	}
	return command
}

// undoer is one run of the command.
type undoer struct {
	cluster *access.Cluster
	client  client.Client
	to      int64
	yes     bool
}

func (u *undoer) run(ctx context.Context, name string) error {
	c, namespace, err := u.cluster.Connect()
	if err != nil {
		return err
	}
	u.client = c
	of, err := access.ControlPlane(ctx, c, client.ObjectKey{Namespace: namespace, Name: name})
	if err != nil {
		return err
	}
	if err := u.refuseTopology(ctx, of); err != nil {
		return err
	}
	former, err := u.former(ctx, of)
	if err != nil {
		return err
	}
	back := specs.Back(former, &of.Spec)
	operations, err := specs.WayBack(&of.Spec, former)
	if err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(of)
	if len(operations) == 0 {
		u.cluster.Say("The spec of KOKControlPlane %s is as in revision %d: nothing was changed", key, u.to)
		return nil
	}
	if err := history.Print(u.cluster.ErrOut, fmt.Sprintf("The spec of KOKControlPlane %s will be as in revision %d", key, u.to), &of.Spec, back); err != nil {
		return err
	}
	// Who is asked learns before that the webhooks would refuse it.
	if err := u.patch(ctx, of, operations, client.DryRunAll); err != nil {
		return err
	}
	if err := u.cluster.Agree(ctx, u.yes); err != nil {
		return err
	}
	if err := u.patch(ctx, of, operations); err != nil {
		return err
	}
	u.cluster.Say("The spec of KOKControlPlane %s is as in revision %d; %s status %s shows how far the rollout is", key, u.to, u.cluster.Program, name)
	return nil
}

// refuseTopology is for a control plane whose spec Cluster API writes: it would undo what is undone here.
func (u *undoer) refuseTopology(ctx context.Context, of *controlplanev1.KOKControlPlane) error {
	name := of.Labels[clusterv1.ClusterNameLabel]
	if name == "" {
		return nil // Cluster API's core has not met it yet.
	}
	cluster, key := &clusterv1.Cluster{}, client.ObjectKey{Namespace: of.Namespace, Name: name}
	if err := u.client.Get(ctx, key, cluster); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		return fmt.Errorf("read Cluster %s: %w", key, err)
	}
	if cluster.Spec.Topology.IsDefined() {
		return fmt.Errorf("nothing was changed: Cluster %s has a topology, which writes the spec of KOKControlPlane %s; the Cluster is the way back: set there what %s history %s --diff shows, by kubectl edit cluster %s --namespace %s",
			key, of.Name, u.cluster.Program, name, name, of.Namespace)
	}
	return nil
}

// former is the spec of the revision that is wanted. It refuses one that no webhook would let through.
func (u *undoer) former(ctx context.Context, of *controlplanev1.KOKControlPlane) (*controlplanev1.KOKControlPlaneSpec, error) {
	revisions, err := history.Revisions(ctx, u.client, of)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(revisions, func(r appsv1.ControllerRevision) bool { return r.Revision == u.to })
	if at < 0 {
		return nil, fmt.Errorf("KOKControlPlane %s has no revision %d; %s", client.ObjectKeyFromObject(of), u.to, history.Numbers(revisions)) //nolint:staticcheck // A kind.
	}
	former, err := history.SpecOf(&revisions[at])
	if err != nil {
		return nil, err
	}
	if from, to := of.Spec.Version, former.Version; !versions.SameMinor(from, to) && versions.Compare(to, from) < 0 {
		return nil, fmt.Errorf("nothing was changed: revision %d has %s, and the control plane has %s; a minor version has no way back, for etcd may hold what only the newer one reads; choose a revision of this minor, or take single fields back by kubectl edit", u.to, to, from)
	}
	return former, nil
}

// patch edits spec, unless somebody else did so since it was read.
func (u *undoer) patch(ctx context.Context, of *controlplanev1.KOKControlPlane, operations []jsonpatch.Operation, options ...client.PatchOption) error {
	guarded := append([]jsonpatch.Operation{jsonpatch.NewOperation("test", "/metadata/generation", of.Generation)}, operations...)
	raw, err := json.Marshal(guarded)
	if err != nil {
		return fmt.Errorf("write the patch: %w", err)
	}
	key := client.ObjectKeyFromObject(of)
	err = u.client.Patch(ctx, of.DeepCopy(), client.RawPatch(types.JSONPatchType, raw), append(options, client.FieldOwner(fieldManager))...)
	if err == nil {
		return nil
	}
	now := &controlplanev1.KOKControlPlane{}
	switch readErr := u.client.Get(ctx, key, now); {
	case readErr == nil && now.Generation == of.Generation:
		return fmt.Errorf("nothing was changed: take the spec of KOKControlPlane %s back: %w", key, err)
	case readErr == nil && isAnswer(err):
		return fmt.Errorf("nothing was changed, for somebody edited the spec of KOKControlPlane %s meanwhile: run the command again", key)
	}
	return fmt.Errorf("it is not known whether the spec of KOKControlPlane %s was changed: look at its history, and run the command again: %w", key, err)
}

// isAnswer reports whether an API server has refused, in place of no answer that came.
func isAnswer(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) && !apierrors.IsInternalError(err)
}
