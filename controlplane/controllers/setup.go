package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/bytenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/cordon"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/metrics"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/watches"
)

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

	if err := mgr.GetFieldIndexer().IndexField(ctx, &clusterv1.Cluster{}, watches.ControlPlaneRefIndex, watches.ControlPlaneRefOf); err != nil {
		return fmt.Errorf("index Clusters by their control plane: %w", err)
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, cordon.PodsByNode, cordon.NodeOf); err != nil {
		return fmt.Errorf("index pods by their nodes: %w", err)
	}
	if err := bytenant.AddIndex(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}

	find := &watches.Finder{Management: r.Client, Host: r.Host.Client}
	build := ctrl.NewControllerManagedBy(mgr).
		For(&controlplanev1.KOKControlPlane{}, builder.WithPredicates(predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, r.WatchFilterValue), status.NotOnlyMessages())).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(watches.OfCluster),
			builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&controlplanev1.KOKEtcdSnapshot{}, handler.EnqueueRequestsFromMapFunc(watches.OfSnapshot), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(find.OfHostNode), builder.WithPredicates(cordon.Predicate())).
		WatchesRawSource(tenants).
		WatchesRawSource(etcds).
		WatchesRawSource(r.Versions).
		WatchesRawSource(r.HostClusters.Source(find.OfHostObject)).
		WithOptions(options)
	for _, kind := range watches.HostKinds() {
		build = build.Watches(kind, handler.EnqueueRequestsFromMapFunc(find.OfHostObject))
	}
	if err := build.Complete(r); err != nil {
		return fmt.Errorf("set up the controller of KOKControlPlanes: %w", err)
	}
	return nil
}
