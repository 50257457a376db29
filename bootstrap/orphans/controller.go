package orphans

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/annotations"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/tenantapi"
)

const (
	// interval is how often the Nodes of a tenant are listed. An orphan does no harm but to confuse people: a watch of all
	// Nodes would cost more.
	interval = 10 * time.Minute
	// mostAtOnce is how many orphans one reconcile deletes.
	mostAtOnce = 500
)

// Reconciler deletes the orphans among the Nodes of Clusters whose infrastructure is an IDCCluster.
type Reconciler struct {
	// Client reads from the management cluster's cache, APIReader from its API server.
	Client    client.Reader
	APIReader client.Reader
	// Tenants has connections to tenants.
	Tenants clustercache.ClusterCache
	// Guard returns the guard for the tenant of a Cluster.
	Guard func(cluster client.ObjectKey) *tenantapi.Guard
	// Clock measures how long a kubelet is silent.
	Clock clock.PassiveClock
	// WatchFilterValue restricts the controller to Clusters with this value of Cluster API's watch label.
	WatchFilterValue string
}

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(_ context.Context, mgr ctrl.Manager, options controller.Options) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("orphaned-nodes").
		For(&clusterv1.Cluster{}, builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		WatchesRawSource(r.Tenants.GetClusterSource("orphaned-nodes", func(_ context.Context, cluster client.Object) []ctrl.Request {
			return []ctrl.Request{{NamespacedName: client.ObjectKeyFromObject(cluster)}}
		})).
		WithOptions(options).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the controller of orphaned Nodes: %w", err)
	}
	return nil
}

// Reconcile deletes the orphans of one Cluster's tenant.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	cluster := &clusterv1.Cluster{}
	if err := r.Client.Get(ctx, request.NamespacedName, cluster); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if r.WatchFilterValue != "" && cluster.Labels[clusterv1.WatchLabel] != r.WatchFilterValue || !inDataCentre(cluster) ||
		annotations.IsPaused(cluster, cluster) || !cluster.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	err := r.deleteOrphans(ctx, cluster)
	if errors.Is(err, clustercache.ErrClusterNotConnected) {
		return ctrl.Result{}, nil // A new connection wakes the controller.
	}
	return ctrl.Result{RequeueAfter: wait.Jitter(interval, 0.1)}, err
}

// inDataCentre reports whether hosts of a data centre become Nodes of a Cluster.
func inDataCentre(cluster *clusterv1.Cluster) bool {
	ref := cluster.Spec.InfrastructureRef
	return ref.Kind == "IDCCluster" && ref.APIGroup == infrav1.GroupVersion.Group
}

func (r *Reconciler) deleteOrphans(ctx context.Context, cluster *clusterv1.Cluster) error {
	tenant, err := r.Tenants.GetUncachedClient(ctx, client.ObjectKeyFromObject(cluster))
	if err != nil {
		return fmt.Errorf("connect to the tenant: %w", err)
	}
	found, err := r.orphans(ctx, tenant, cluster)
	if err != nil || len(found) == 0 {
		return err
	}
	var problems []error
	for _, node := range found {
		// A Node whose kubelet reports again has another resource version.
		err := tenant.Delete(ctx, node, client.Preconditions{UID: &node.UID, ResourceVersion: ptr.To(node.ResourceVersion)})
		switch {
		case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		case err != nil:
			problems = append(problems, fmt.Errorf("delete Node %s of the tenant, which has no Machine: %w", node.Name, err))
		default:
			ctrl.LoggerFrom(ctx).Info("Deleted a Node that has no Machine and whose kubelet is silent", "Node", klog.KObj(node), "providerID", node.Spec.ProviderID)
		}
	}
	return errors.Join(problems...)
}

// orphans are the orphaned Nodes of a tenant, by the Machines that the API server has: the cache may be late.
func (r *Reconciler) orphans(ctx context.Context, tenant client.Reader, cluster *clusterv1.Cluster) ([]*corev1.Node, error) {
	suspects, err := r.suspects(ctx, tenant, cluster)
	if err != nil || len(suspects) == 0 {
		return nil, err
	}
	machines, err := machinesOf(ctx, r.APIReader, cluster)
	if err != nil {
		return nil, err
	}
	var found []*corev1.Node
	for _, node := range suspects {
		if Orphaned(node, cluster.Namespace, machines, r.Clock.Now()) {
			found = append(found, node)
		}
	}
	return found, nil
}

// suspects are the Nodes of a tenant that are orphans by the Machines in the cache.
func (r *Reconciler) suspects(ctx context.Context, tenant client.Reader, cluster *clusterv1.Cluster) ([]*corev1.Node, error) {
	machines, err := machinesOf(ctx, r.Client, cluster)
	if err != nil {
		return nil, err
	}
	var found []*corev1.Node
	err = tenantapi.EachNode(ctx, r.Guard(client.ObjectKeyFromObject(cluster)), tenant, func(node *corev1.Node) {
		if len(found) < mostAtOnce && Orphaned(node, cluster.Namespace, machines, r.Clock.Now()) {
			found = append(found, whatIsJudged(node))
		}
	})
	return found, err
}

// whatIsJudged keeps the fields of a Node that Orphaned and the deletion need: the rest may be large.
func whatIsJudged(node *corev1.Node) *corev1.Node {
	kept := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion}}
	kept.Spec.ProviderID = node.Spec.ProviderID
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			kept.Status.Conditions = []corev1.NodeCondition{{Type: condition.Type, Status: condition.Status, LastTransitionTime: condition.LastTransitionTime}}
			break
		}
	}
	return kept.DeepCopy()
}

func machinesOf(ctx context.Context, reader client.Reader, cluster *clusterv1.Cluster) ([]clusterv1.Machine, error) {
	list := &clusterv1.MachineList{}
	if err := reader.List(ctx, list, client.InNamespace(cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}); err != nil {
		return nil, fmt.Errorf("list the Machines of Cluster %s: %w", cluster.Name, err)
	}
	return list.Items, nil
}
