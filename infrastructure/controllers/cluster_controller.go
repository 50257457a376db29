package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/patch"
	"sigs.k8s.io/cluster-api/util/paused"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

// ClusterReconciler writes into the status of IDCClusters that they are provisioned, and which failure domains there are.
// It makes nothing else for a cluster, so that a deletion has nothing to clean up.
type ClusterReconciler struct {
	// Client writes; its reads come from a cache.
	Client client.Client
	// WatchFilterValue restricts the controller to objects with this value of Cluster API's watch label.
	WatchFilterValue string
}

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=idcclusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=idcclusters/status,verbs=patch

// Reconcile writes the status of one IDCCluster.
func (r *ClusterReconciler) Reconcile(ctx context.Context, request ctrl.Request) (_ ctrl.Result, reterr error) {
	infra := &infrav1.IDCCluster{}
	if err := r.Client.Get(ctx, request.NamespacedName, infra); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if r.WatchFilterValue != "" && infra.Labels[clusterv1.WatchLabel] != r.WatchFilterValue || annotations.IsExternallyManaged(infra) {
		return ctrl.Result{}, nil
	}
	cluster, err := util.GetOwnerCluster(ctx, r.Client, infra.ObjectMeta)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("read the Cluster that owns this one: %w", err)
	}
	if cluster == nil || !infra.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	if isPaused, requeue, err := paused.EnsurePausedCondition(ctx, r.Client, cluster, infra); err != nil || isPaused || requeue {
		return ctrl.Result{}, err
	}
	list := &infrav1.IDCHostList{}
	if err := r.Client.List(ctx, list, client.InNamespace(infra.Namespace)); err != nil {
		return ctrl.Result{}, fmt.Errorf("list the hosts: %w", err)
	}
	helper, err := patch.NewHelper(infra, r.Client)
	if err != nil {
		return ctrl.Result{}, err
	}
	infra.Status.Initialization.Provisioned = ptr.To(true)
	infra.Status.FailureDomains = failureDomains(list.Items)
	conditions.Set(infra, condition(infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason, ""))
	err = helper.Patch(ctx, infra, patch.WithOwnedConditions{Conditions: []string{clusterv1.PausedCondition, infrav1.ReadyCondition}}, patch.WithStatusObservedGeneration{})
	if err != nil && !apierrors.IsNotFound(err) {
		return ctrl.Result{}, errors.Join(reterr, fmt.Errorf("write the status: %w", err))
	}
	return ctrl.Result{}, nil
}

// maxFailureDomains is how many the contract allows.
const maxFailureDomains = 100

// failureDomains are those of the hosts, sorted. Each may have Machines of control planes: some control plane providers
// have such Machines.
func failureDomains(hosts []infrav1.IDCHost) []clusterv1.FailureDomain {
	var all []clusterv1.FailureDomain
	for _, host := range hosts {
		if host.Spec.FailureDomain != "" {
			all = append(all, clusterv1.FailureDomain{Name: host.Spec.FailureDomain, ControlPlane: ptr.To(true)})
		}
	}
	slices.SortFunc(all, func(a, b clusterv1.FailureDomain) int { return strings.Compare(a.Name, b.Name) })
	all = slices.CompactFunc(all, func(a, b clusterv1.FailureDomain) bool { return a.Name == b.Name })
	return all[:min(len(all), maxFailureDomains)]
}
