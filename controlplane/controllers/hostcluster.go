package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/secret"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostclusters"
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
	if !controlPlane.Spec.Hosting.Elsewhere() {
		return r.Host, nil
	}
	// A Cluster that is being deleted keeps its control plane until its machines are gone.
	leaving := !controlPlane.DeletionTimestamp.IsZero() || !clusterOrEmpty(cluster).DeletionTimestamp.IsZero()
	return r.hosts.Of(ctx, client.ObjectKeyFromObject(controlPlane),
		client.ObjectKey{Namespace: controlPlane.Namespace, Name: controlPlane.Spec.Hosting.KubeconfigRef.Name}, leaving)
}

// withoutHost says why nothing can be done. Nobody asks etcd or the tenant in the meantime: what was asked may
// hold credentials that are withdrawn. While it is being connected to, what status said before holds: a program
// that starts writes nothing to settled tenants.
func (r *Reconciler) withoutHost(controlPlane *controlplanev1.KOKControlPlane, problem *hostclusters.Problem) ctrl.Result {
	r.endBackground(client.ObjectKeyFromObject(controlPlane))
	again := ctrl.Result{RequeueAfter: settledInterval}
	if problem.Reason == controlplanev1.InvalidHostKubeconfigReason {
		again.RequeueAfter = secretInterval
	}
	if problem.Reason == controlplanev1.HostClusterConnectingReason && conditions.IsTrue(controlPlane, controlplanev1.InitializedCondition) &&
		controlPlane.Status.ObservedGeneration == controlPlane.Generation {
		return again
	}
	for _, unknown := range []string{
		controlplanev1.AvailableCondition, controlplanev1.EtcdClusterHealthyCondition, controlplanev1.ControlPlaneComponentsHealthyCondition,
	} {
		conditions.Set(controlPlane, condition(unknown, metav1.ConditionUnknown, problem.Reason, problem.Message))
	}
	conditions.Set(controlPlane, condition(controlplanev1.ReconciledCondition, metav1.ConditionFalse, problem.Reason, problem.Message))
	return again
}

// deleteWithoutHost waits for the host cluster, unless nothing was ever made there.
func (r *Reconciler) deleteWithoutHost(ctx context.Context, tenant client.ObjectKey, controlPlane *controlplanev1.KOKControlPlane, problem *hostclusters.Problem) (gone bool, err error) {
	r.endBackground(client.ObjectKeyFromObject(controlPlane))
	hosted, err := r.wasHosted(ctx, tenant, controlPlane)
	if err != nil {
		return false, fmt.Errorf("find out whether anything was made in the host cluster: %w", err)
	}
	if !hosted {
		return true, nil
	}
	setDeleting(controlPlane, fmt.Sprintf("%s; the deletion waits for it. If the host cluster is gone for good, "+
		"remove the finalizer %s from metadata.finalizers: nothing is deleted there then", problem.Message, controlplanev1.KOKControlPlaneFinalizer))
	return false, nil
}

// wasHosted reports whether anything may be in the host cluster. Keys are made before all else, and kept in the
// management cluster too.
func (r *Reconciler) wasHosted(ctx context.Context, tenant client.ObjectKey, controlPlane *controlplanev1.KOKControlPlane) (bool, error) {
	if tellsHosted(controlPlane) {
		return true, nil
	}
	left, err := objectsOf(ctx, r.Host, tenant, corev1.SchemeGroupVersion.WithKind("Secret"), nil)
	return len(left) > 0, err
}

// tellsHosted reports whether a control plane itself tells that something was made in its host cluster.
func tellsHosted(controlPlane *controlplanev1.KOKControlPlane) bool {
	return controlPlane.Spec.Hosting.Ports.First != 0 || len(controlPlane.Status.Etcd) > 0
}

// deleteManagementSecrets deletes what a tenant that is hosted elsewhere has in the management cluster.
func (r *Reconciler) deleteManagementSecrets(ctx context.Context, tenant client.ObjectKey) ([]string, error) {
	return deleteKinds(ctx, r.Host, tenant, []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("Secret")}, nil)
}

// validateHostCluster refuses a control plane in another host cluster of which nothing that the management cluster
// reaches is known, and one that would be its own host.
func validateHostCluster(cluster *clusterv1.Cluster, controlPlane *controlplanev1.KOKControlPlane) error {
	hosting := controlPlane.Spec.Hosting
	if !hosting.Elsewhere() {
		return nil
	}
	var problems []error
	if own := secret.Name(cluster.Name, secret.Kubeconfig); hosting.KubeconfigRef.Name == own {
		problems = append(problems, fmt.Errorf("spec.hosting.kubeconfigRef names Secret %s, the kubeconfig of this tenant itself; create a new control plane that names the one of its host cluster", own))
	}
	if endpointOf(cluster, controlPlane, controlplanev1.APIEndpoint{}).Host == "" && hosting.Exposure.Type != controlplanev1.ExposureLoadBalancer {
		problems = append(problems, errors.New("spec.hosting.kubeconfigRef names another host cluster, whose cluster IPs the management cluster cannot reach; "+
			"set spec.controlPlaneEndpoint of the control plane or of its Cluster to where the API will be reached, or expose it with hosting.exposure.type LoadBalancer"))
	}
	return errors.Join(problems...)
}
