// Package snapshot holds what a reconcile reads of a host cluster once, at its start: the pods of a control plane and its
// stored revisions. Steps decide from it, and it never changes. What is newer wakes the next reconcile by a watch.
//
// Code reads the host cluster again only where an old answer would do harm, such as before it forgets or deletes
// something. Each such place says why.
package snapshot

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/revision"
)

// Snapshot is read-only: steps that run side by side share it.
type Snapshot struct {
	// Pods are those of the control plane, by component, sorted by name.
	Pods map[string][]corev1.Pod
	// Revisions are the stored renderings. The revision.Store keeps those that the reconcile itself writes in a list of its own.
	Revisions revision.Revisions
}

// Take reads the snapshot of a tenant, from a cache.
func Take(ctx context.Context, cache client.Reader, cluster client.ObjectKey) (*Snapshot, error) {
	pods, err := hostpods.List(ctx, cache, cluster)
	if err != nil {
		return nil, err
	}
	revisions, err := revision.List(ctx, cache, cluster)
	if err != nil {
		return nil, err
	}
	return &Snapshot{Pods: pods, Revisions: revisions}, nil
}
