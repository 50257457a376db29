package controllers

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/apply"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/bytenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/cordon"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/metrics"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/revision"
)

// HostKinds are the kinds that the controller makes in the host cluster and watches there.
func HostKinds() []client.Object {
	return []client.Object{
		&appsv1.StatefulSet{}, &appsv1.DaemonSet{}, &appsv1.Deployment{}, &appsv1.ControllerRevision{},
		&policyv1.PodDisruptionBudget{}, &networkingv1.NetworkPolicy{}, &corev1.Service{}, &corev1.ConfigMap{}, &corev1.Secret{}, &corev1.Pod{},
	}
}

// HostCache makes a cache hold only the controller's own objects of kinds that others make, too, and of all Nodes whether they are
// cordoned. It trims each object to what reconciles read. It does not hold the ControllerRevisions that StatefulSets and DaemonSets make of
// our pods, although they have our label.
func HostCache() map[client.Object]cache.ByObject {
	own := labels.SelectorFromSet(labels.Set{names.ManagedByLabel: names.ManagedBy})
	kinds := map[client.Object]cache.ByObject{}
	for _, kind := range HostKinds() {
		byObject := cache.ByObject{Label: own, Transform: apply.Trim}
		switch kind.(type) {
		case *corev1.Pod:
			byObject.Transform = hostpods.Trim
		case *corev1.Secret:
			byObject.Transform = cache.TransformStripManagedFields()
		case *appsv1.ControllerRevision:
			byObject.Label, byObject.Transform = revision.OfProvider(), cache.TransformStripManagedFields()
		}
		kinds[kind] = byObject
	}
	kinds[&corev1.Node{}] = cache.ByObject{Transform: cordon.Trim}
	return kinds
}

// OwnHost is the management cluster as a host cluster, with the claims of port blocks in a namespace. SetupWithManager adds the
// index that its client lists by.
func OwnHost(mgr ctrl.Manager, portNamespace string, hostPorts ports.Span) *Host {
	cached := bytenant.Client(mgr.GetClient())
	return &Host{
		Client: cached, Live: mgr.GetAPIReader(), Applier: apply.New(cached, mgr.GetAPIReader()),
		Claims: ports.New(cached, mgr.GetAPIReader(), portNamespace, hostPorts), Own: true,
	}
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	log := ctrl.LoggerFrom(ctx)
	r.recorder = mgr.GetEventRecorder("kok-control-plane")
	r.steps = r.graph()
	if r.etcd.Check == nil {
		r.etcd = operator.Etcd{Check: etcd.Check, Change: etcd.Change, MakeRoom: etcd.MakeRoom, Hashes: etcd.Hashes, EachValue: etcd.EachValue, DefragmentEvery: r.EtcdDefragmentEvery}
	}
	tenants, etcds := probe.New(), operator.New(r.etcd, r.Clock, r.recorder)
	r.prober, r.etcdOperator, r.hosts = tenants, etcds, r.HostClusters
	if err := ctrlmetrics.Registry.Register(metrics.NewCollector(r.Client)); err != nil {
		return fmt.Errorf("register the metrics of control planes: %w", err)
	}

	if err := mgr.GetFieldIndexer().IndexField(ctx, &clusterv1.Cluster{}, controlPlaneRefIndex, controlPlaneRefOf); err != nil {
		return fmt.Errorf("index Clusters by their control plane: %w", err)
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, cordon.PodsByNode, cordon.NodeOf); err != nil {
		return fmt.Errorf("index pods by their nodes: %w", err)
	}
	if err := bytenant.AddIndex(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}

	build := ctrl.NewControllerManagedBy(mgr).
		For(&controlplanev1.KOKControlPlane{}, builder.WithPredicates(predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, r.WatchFilterValue))).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(clusterToControlPlane),
			builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&controlplanev1.KOKEtcdSnapshot{}, handler.EnqueueRequestsFromMapFunc(snapshotToControlPlane), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.hostNodeToControlPlanes), builder.WithPredicates(cordon.Predicate())).
		WatchesRawSource(tenants).
		WatchesRawSource(etcds).
		WatchesRawSource(r.Versions).
		WatchesRawSource(r.HostClusters.Source(r.hostObjectToControlPlane)).
		WithOptions(options)
	for _, kind := range HostKinds() {
		build = build.Watches(kind, handler.EnqueueRequestsFromMapFunc(r.hostObjectToControlPlane))
	}
	if err := build.Complete(r); err != nil {
		return fmt.Errorf("set up the controller of KOKControlPlanes: %w", err)
	}
	return nil
}

// controlPlaneRefIndex finds Clusters by the name of the KOKControlPlane that they name.
const controlPlaneRefIndex = "spec.controlPlaneRef.name"

func controlPlaneRefOf(object client.Object) []string {
	cluster, ok := object.(*clusterv1.Cluster)
	if !ok || cluster.Spec.ControlPlaneRef.Kind != "KOKControlPlane" {
		return nil
	}
	return []string{cluster.Spec.ControlPlaneRef.Name}
}

func clusterToControlPlane(_ context.Context, object client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, name := range controlPlaneRefOf(object) {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: object.GetNamespace(), Name: name}})
	}
	return requests
}

// snapshotToControlPlane finds the control plane of a snapshot.
func snapshotToControlPlane(_ context.Context, object client.Object) []reconcile.Request {
	snapshot, ok := object.(*controlplanev1.KOKEtcdSnapshot)
	if !ok || snapshot.Spec.ControlPlaneName == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: snapshot.Namespace, Name: snapshot.Spec.ControlPlaneName}}}
}

// hostNodeToControlPlanes finds those of which a member of etcd is on a node.
func (r *Reconciler) hostNodeToControlPlanes(ctx context.Context, node client.Object) []reconcile.Request {
	pods, err := cordon.Members(ctx, r.Host.Client, node.GetName())
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Look for members of etcd on a node", "Node", klog.KRef("", node.GetName()))
	}
	var requests []reconcile.Request
	for i := range pods {
		requests = append(requests, r.hostObjectToControlPlane(ctx, &pods[i])...)
	}
	return requests
}

// hostObjectToControlPlane finds the control plane of an object in the host cluster by its labels:
// through the Cluster that they name or, when that is gone, by the control plane's own label.
func (r *Reconciler) hostObjectToControlPlane(ctx context.Context, object client.Object) []reconcile.Request {
	key := names.Tenant(object)
	if key.Name == "" {
		return nil
	}
	cluster := &clusterv1.Cluster{}
	if err := r.Client.Get(ctx, key, cluster); err == nil {
		return clusterToControlPlane(ctx, cluster)
	}
	list := &controlplanev1.KOKControlPlaneList{}
	if err := r.Client.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: key.Name}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List the control planes of a cluster", "Cluster", klog.KRef(key.Namespace, key.Name))
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}
