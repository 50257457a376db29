package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/predicates"
	"sigs.k8s.io/cluster-api/util/secret"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/references"
)

// Cache makes a manager's cache hold only Secrets of Clusters, and their content only where it is read: certificate
// authorities and kubeconfigs.
func Cache() map[client.Object]cache.ByObject {
	ofClusters, err := labels.NewRequirement(clusterv1.ClusterNameLabel, selection.Exists, nil)
	if err != nil {
		panic(err)
	}
	return map[client.Object]cache.ByObject{
		&corev1.Secret{}:     {Label: labels.NewSelector().Add(*ofClusters), Transform: withoutContent},
		&clusterv1.Machine{}: {Transform: cache.TransformStripManagedFields()},
		&clusterv1.Cluster{}: {Transform: cache.TransformStripManagedFields()},

		&bootstrapv1.KOKConfig{}:   {Transform: cache.TransformStripManagedFields()},
		&bootstrapv1.KOKSoftware{}: {Transform: cache.TransformStripManagedFields()},
	}
}

func withoutContent(in any) (any, error) {
	object, ok := in.(*corev1.Secret)
	if !ok {
		return in, nil
	}
	object.SetManagedFields(nil)
	cluster := object.Labels[clusterv1.ClusterNameLabel]
	switch object.Name {
	case secret.Name(cluster, secret.Kubeconfig):
	case secret.Name(cluster, secret.ClusterCA):
		delete(object.Data, secret.TLSKeyDataName)
	default:
		object.Data = nil
	}
	return object, nil
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	log := ctrl.LoggerFrom(ctx)
	r.recorder = mgr.GetEventRecorder("kok-bootstrap")
	err := ctrl.NewControllerManagedBy(mgr).
		For(&bootstrapv1.KOKConfig{}, builder.WithPredicates(predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, r.WatchFilterValue))).
		Owns(&corev1.Secret{}).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(machineToConfig)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.clusterToConfigs), builder.WithPredicates(clusterChanged)).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.authorityToConfigs)).
		Watches(&bootstrapv1.KOKSoftware{}, handler.EnqueueRequestsFromMapFunc(r.softwareToConfigs), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(r.Tenants.GetClusterSource("kokconfig", r.clusterToConfigs)).
		WithOptions(options).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the controller of KOKConfigs: %w", err)
	}
	return nil
}

// clusterChanged passes changes of a Cluster that the bootstrap data waits for or depends on.
var clusterChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*clusterv1.Cluster)
		after, same := e.ObjectNew.(*clusterv1.Cluster)
		return !ok || !same ||
			ptr.Deref(before.Spec.Paused, false) != ptr.Deref(after.Spec.Paused, false) ||
			!apiequality.Semantic.DeepEqual(before.Spec.ClusterNetwork, after.Spec.ClusterNetwork) ||
			!apiequality.Semantic.DeepEqual(before.Status.Initialization, after.Status.Initialization)
	},
}

func machineToConfig(_ context.Context, object client.Object) []reconcile.Request {
	machine, ok := object.(*clusterv1.Machine)
	if !ok {
		return nil
	}
	if !references.HasKOKConfig(machine) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: machine.Namespace, Name: machine.Spec.Bootstrap.ConfigRef.Name}}}
}

func (r *Reconciler) clusterToConfigs(ctx context.Context, cluster client.Object) []reconcile.Request {
	machines := &clusterv1.MachineList{}
	if err := r.Client.List(ctx, machines, client.InNamespace(cluster.GetNamespace()), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.GetName()}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List the Machines of a Cluster", "Cluster", klog.KObj(cluster))
		return nil
	}
	var requests []reconcile.Request
	for i := range machines.Items {
		requests = append(requests, machineToConfig(ctx, &machines.Items[i])...)
	}
	return requests
}

// authorityToConfigs wakes the configs that wait for their cluster's certificate authority.
func (r *Reconciler) authorityToConfigs(ctx context.Context, object client.Object) []reconcile.Request {
	name := object.GetLabels()[clusterv1.ClusterNameLabel]
	if object.GetName() != secret.Name(name, secret.ClusterCA) {
		return nil
	}
	cluster := &clusterv1.Cluster{}
	cluster.Namespace, cluster.Name = object.GetNamespace(), name
	return r.clusterToConfigs(ctx, cluster)
}
