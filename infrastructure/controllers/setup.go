package controllers

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/nodes"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/background"
)

const (
	// probePlaces and workPlaces bound how many hosts are connected to at the same time.
	probePlaces = 32
	workPlaces  = 32
	// patience is how long a task keeps its place; it goes on without one.
	patience = time.Second
)

// clusterChanges passes changes of a Cluster's spec and status: machines wait for its infrastructure.
var clusterChanges = predicate.ResourceVersionChangedPredicate{}

// SetupWithManager registers the controller of IDCHosts.
func (r *HostReconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	probes := background.New(probePlaces, patience)
	r.probes = probes
	r.recorder = mgr.GetEventRecorder("kok-infrastructure")
	err := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.IDCHost{}, builder.WithPredicates(predicates.ResourceHasFilterLabel(mgr.GetScheme(), ctrl.LoggerFrom(ctx), r.WatchFilterValue))).
		Watches(&infrav1.IDCMachine{}, handler.EnqueueRequestsFromMapFunc(r.machineToHost)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.clusterToHosts),
			builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.nodeToHosts), builder.WithPredicates(nodes.Changes)).
		WatchesRawSource(probes).
		WithOptions(options).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the controller of IDCHosts: %w", err)
	}
	return nil
}

// nodeToHosts wakes the hosts with an address that a Node of the host cluster has.
func (r *HostReconciler) nodeToHosts(ctx context.Context, object client.Object) []reconcile.Request {
	node, ok := object.(*corev1.Node)
	if !ok {
		return nil
	}
	addresses := nodes.Addresses(node)
	has := func(text string) bool {
		address, err := netip.ParseAddr(text)
		return err == nil && slices.Contains(addresses, address)
	}
	list := &infrav1.IDCHostList{}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List the hosts that may be a Node", "Node", klog.KObj(node))
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		host := &list.Items[i]
		if has(host.Spec.Address) || slices.ContainsFunc(host.Status.Addresses, has) {
			requests = append(requests, requestFor(host))
		}
	}
	return requests
}

// machineToHost wakes the hosts whose claim names the machine.
func (r *HostReconciler) machineToHost(ctx context.Context, object client.Object) []reconcile.Request {
	list := &infrav1.IDCHostList{}
	if err := r.Client.List(ctx, list, client.InNamespace(object.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List the hosts of a machine", "IDCMachine", klog.KObj(object))
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if claim := list.Items[i].Spec.Claim; claim != nil && claim.Name == object.GetName() {
			requests = append(requests, requestFor(&list.Items[i]))
		}
	}
	return requests
}

// clusterToHosts wakes the hosts that a Cluster may pause: those of its machines, and those that wait for a clean-up.
func (r *HostReconciler) clusterToHosts(ctx context.Context, object client.Object) []reconcile.Request {
	if movedAway(object) {
		return nil // Its hosts are moved away next.
	}
	list := &infrav1.IDCMachineList{}
	if err := r.Client.List(ctx, list, client.InNamespace(object.GetNamespace()), client.MatchingLabels{clusterv1.ClusterNameLabel: object.GetName()}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List the machines of a Cluster", "Cluster", klog.KObj(object))
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if ref := list.Items[i].Spec.HostRef; ref != nil {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: object.GetNamespace(), Name: ref.Name}})
		}
	}
	all := &infrav1.IDCHostList{}
	if err := r.Client.List(ctx, all, client.InNamespace(object.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List the hosts whose clean-up a Cluster may pause", "Cluster", klog.KObj(object))
		return requests
	}
	for i := range all.Items {
		if waitsForCleanUp(&all.Items[i]) {
			requests = append(requests, requestFor(&all.Items[i]))
		}
	}
	return requests
}

func requestFor(object client.Object) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)}
}

// SetupWithManager registers the controller of IDCMachines.
func (r *MachineReconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	work := background.New(workPlaces, patience)
	r.work = work
	r.recorder = mgr.GetEventRecorder("kok-infrastructure")
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	if r.CleanUpTimeout == 0 {
		r.CleanUpTimeout = DefaultCleanUpTimeout
	}
	clusterToMachines, err := util.ClusterToTypedObjectsMapper(r.Client, &infrav1.IDCMachineList{}, mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("map Clusters to IDCMachines: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.IDCMachine{}, builder.WithPredicates(predicates.ResourceHasFilterLabel(mgr.GetScheme(), ctrl.LoggerFrom(ctx), r.WatchFilterValue))).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(util.MachineToInfrastructureMapFunc(infrav1.GroupVersion.WithKind("IDCMachine")))).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(clusterToMachines), builder.WithPredicates(clusterChanges)).
		Watches(&infrav1.IDCHost{}, handler.EnqueueRequestsFromMapFunc(r.hostToMachines)).
		WatchesRawSource(work).
		WithOptions(options).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the controller of IDCMachines: %w", err)
	}
	return nil
}

// hostToMachines wakes the machine that has claimed the host or, for a free host, the machines that want one.
func (r *MachineReconciler) hostToMachines(ctx context.Context, object client.Object) []reconcile.Request {
	host, ok := object.(*infrav1.IDCHost)
	if !ok {
		return nil
	}
	if host.Spec.Claim != nil {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: host.Namespace, Name: host.Spec.Claim.Name}}}
	}
	list := &infrav1.IDCMachineList{}
	if err := r.Client.List(ctx, list, client.InNamespace(host.Namespace)); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List the machines that want a host", "IDCHost", klog.KObj(host))
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		machine := &list.Items[i]
		if ref := machine.Spec.HostRef; ref == nil || ref.Name == host.Name {
			requests = append(requests, requestFor(machine))
		}
	}
	return requests
}

// SetupWithManager registers the controller of IDCClusters.
func (r *ClusterReconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	err := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.IDCCluster{}, builder.WithPredicates(predicates.ResourceHasFilterLabel(mgr.GetScheme(), ctrl.LoggerFrom(ctx), r.WatchFilterValue))).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(
			util.ClusterToInfrastructureMapFunc(ctx, infrav1.GroupVersion.WithKind("IDCCluster"), r.Client, &infrav1.IDCCluster{})),
			builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&infrav1.IDCHost{}, handler.EnqueueRequestsFromMapFunc(r.hostToClusters), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(options).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the controller of IDCClusters: %w", err)
	}
	return nil
}

// hostToClusters wakes all IDCClusters of a namespace: the host may have a new failure domain.
func (r *ClusterReconciler) hostToClusters(ctx context.Context, object client.Object) []reconcile.Request {
	list := &infrav1.IDCClusterList{}
	if err := r.Client.List(ctx, list, client.InNamespace(object.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List the clusters that use a host", "IDCHost", klog.KObj(object))
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, requestFor(&list.Items[i]))
	}
	return requests
}
