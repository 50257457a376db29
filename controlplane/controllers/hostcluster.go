package controllers

import (
	"context"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
)

// secretInterval is how soon a Secret is looked for again that a person is to make or correct.
const secretInterval = 10 * time.Second

// Host is a host cluster.
type Host = hostclusters.Host

// hostClusters is what reconciles see of hostclusters.Clusters.
type hostClusters interface {
	Of(ctx context.Context, controlPlane, secret client.ObjectKey, leaving bool) (*Host, error)
	Release(controlPlane client.ObjectKey)
}

// hostOf is the host cluster of a control plane. The error is a *hostclusters.Problem when it cannot be used now.
func (r *Reconciler) hostOf(ctx context.Context, cluster *clusterv1.Cluster, controlPlane *controlplanev1.KOKControlPlane) (*Host, error) {
	if !controlPlane.Spec.Hosting.OnAnotherCluster() {
		return r.Host, nil
	}
	// A Cluster that is being deleted keeps its control plane until its machines are gone.
	leaving := !controlPlane.DeletionTimestamp.IsZero() || !clusterOrEmpty(cluster).DeletionTimestamp.IsZero()
	return r.hosts.Of(ctx, client.ObjectKeyFromObject(controlPlane),
		client.ObjectKey{Namespace: controlPlane.Namespace, Name: controlPlane.Spec.Hosting.KubeconfigRef.Name}, leaving)
}

// withoutHost says why nothing can be done. Nobody probes etcd or the tenant in the meantime: what was begun may
// hold credentials that are withdrawn. While it is being connected to, what status said before holds: a program
// that starts writes nothing to settled tenants.
func (r *Reconciler) withoutHost(controlPlane *controlplanev1.KOKControlPlane, problem *hostclusters.Problem) ctrl.Result {
	r.endBackground(client.ObjectKeyFromObject(controlPlane))
	again := ctrl.Result{RequeueAfter: settledInterval}
	if problem.Reason == conditionsv1.InvalidHostKubeconfigReason {
		again.RequeueAfter = secretInterval
	}
	if problem.Reason == conditionsv1.HostClusterConnectingReason && conditions.IsTrue(controlPlane, conditionsv1.InitializedCondition) &&
		controlPlane.Status.ObservedGeneration == controlPlane.Generation {
		return again
	}
	status.WithoutHost(controlPlane, problem.Reason, problem.Message)
	return again
}
