package servingcertificates

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TenantCache makes the caches of tenants hold only the fields of requests that a decision needs. It cannot leave out whole
// requests: a selector chooses one signer, and two count.
func TenantCache() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&certificatesv1.CertificateSigningRequest{}: {Transform: whatIsDecidedBy},
	}
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(_ context.Context, mgr ctrl.Manager, options controller.Options) error {
	built, err := ctrl.NewControllerManagedBy(mgr).
		Named("serving-certificates").
		For(&clusterv1.Cluster{}, builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(machineToCluster)).
		WatchesRawSource(r.Tenants.GetClusterSource("serving-certificates", clusterToItself)).
		WithOptions(options).
		Build(r)
	if err != nil {
		return fmt.Errorf("set up the controller of serving certificates: %w", err)
	}
	r.watcher = built
	return nil
}

func machineToCluster(_ context.Context, object client.Object) []reconcile.Request {
	machine, ok := object.(*clusterv1.Machine)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: machine.Namespace, Name: machine.Spec.ClusterName}}}
}

func clusterToItself(_ context.Context, cluster client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(cluster)}}
}
