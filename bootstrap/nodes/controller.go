package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/tenantapi"
)

const (
	// interval is how often the Nodes of a tenant are listed: a watch of all Nodes would cost more. An orphan does no harm but to
	// confuse people. That a Node is lost is also told by Cluster API.
	interval = 10 * time.Minute
	// mostAtOnce is how many orphans one reconcile deletes, and how many lost Nodes it makes.
	mostAtOnce = 500
)

// Reconciler deletes the orphans among the Nodes of Clusters whose infrastructure is an IDCCluster, and makes those anew that
// Machines have lost.
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
// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=kokconfigs,verbs=get;list;watch

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(_ context.Context, mgr ctrl.Manager, options controller.Options) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("tenant-nodes").
		For(&clusterv1.Cluster{}, builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		WatchesRawSource(r.Tenants.GetClusterSource("tenant-nodes", func(_ context.Context, cluster client.Object) []ctrl.Request {
			return []ctrl.Request{{NamespacedName: client.ObjectKeyFromObject(cluster)}}
		})).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(clusterOf), builder.WithPredicates(predicate.NewPredicateFuncs(lacksNode))).
		WithOptions(options).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the controller of tenants' Nodes: %w", err)
	}
	return nil
}

// lacksNode reports whether Cluster API has seen that the Node of a Machine is gone. It sees that sooner than a list does.
func lacksNode(object client.Object) bool {
	machine, ok := object.(*clusterv1.Machine)
	return ok && machine.DeletionTimestamp.IsZero() && conditions.GetReason(machine, clusterv1.MachineNodeHealthyCondition) == clusterv1.MachineNodeDeletedReason
}

func clusterOf(_ context.Context, object client.Object) []ctrl.Request {
	machine, ok := object.(*clusterv1.Machine)
	if !ok {
		return nil
	}
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: machine.Namespace, Name: machine.Spec.ClusterName}}}
}

// Reconcile deletes the orphans of one Cluster's tenant, and makes anew what its Machines have lost.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	cluster := &clusterv1.Cluster{}
	if err := r.Client.Get(ctx, request.NamespacedName, cluster); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if r.WatchFilterValue != "" && cluster.Labels[clusterv1.WatchLabel] != r.WatchFilterValue || !inDataCentre(cluster) ||
		annotations.IsPaused(cluster, cluster) || !cluster.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	err := r.keepInStep(ctx, cluster)
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

func (r *Reconciler) keepInStep(ctx context.Context, cluster *clusterv1.Cluster) error {
	tenant, err := r.Tenants.GetUncachedClient(ctx, client.ObjectKeyFromObject(cluster))
	if err != nil {
		return fmt.Errorf("connect to the tenant: %w", err)
	}
	machines, err := machinesOf(ctx, r.Client, cluster)
	if err != nil {
		return err
	}
	var orphans []*corev1.Node
	there := sets.New[string]()
	err = tenantapi.EachNode(ctx, r.Guard(client.ObjectKeyFromObject(cluster)), tenant, func(node *corev1.Node) {
		there.Insert(strings.Clone(node.Name))
		if len(orphans) < mostAtOnce && Orphaned(node, cluster.Namespace, machines, r.Clock.Now()) {
			orphans = append(orphans, whatIsJudged(node))
		}
	})
	lost := Lost(machines, there)
	if err != nil || len(orphans) == 0 && len(lost) == 0 {
		return err
	}
	// The cache may be late.
	if machines, err = machinesOf(ctx, r.APIReader, cluster); err != nil {
		return err
	}
	orphans = slices.DeleteFunc(orphans, func(node *corev1.Node) bool { return !Orphaned(node, cluster.Namespace, machines, r.Clock.Now()) })
	lost = Lost(machines, there)
	return errors.Join(deleteOrphans(ctx, tenant, orphans), r.makeAnew(ctx, tenant, lost[:min(len(lost), mostAtOnce)]))
}

func deleteOrphans(ctx context.Context, tenant client.Writer, orphans []*corev1.Node) error {
	var problems []error
	for _, node := range orphans {
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

// makeAnew creates the Nodes of Machines.
func (r *Reconciler) makeAnew(ctx context.Context, tenant client.Writer, lost []*clusterv1.Machine) error {
	var problems []error
	for _, machine := range lost {
		config := &bootstrapv1.KOKConfig{}
		if ref := machine.Spec.Bootstrap.ConfigRef; ref.Kind == "KOKConfig" && ref.APIGroup == bootstrapv1.GroupVersion.Group {
			key := client.ObjectKey{Namespace: machine.Namespace, Name: ref.Name}
			if err := r.Client.Get(ctx, key, config); client.IgnoreNotFound(err) != nil {
				problems = append(problems, fmt.Errorf("read KOKConfig %s: %w", key, err))
				continue
			}
		}
		node := Anew(machine, &config.Spec.Kubelet)
		switch err := tenant.Create(ctx, node); {
		case apierrors.IsAlreadyExists(err):
		case err != nil:
			problems = append(problems, fmt.Errorf("make Node %s of the tenant anew, which Machine %s has lost: %w", node.Name, machine.Name, err))
		default:
			ctrl.LoggerFrom(ctx).Info("Made a Node anew that its Machine had lost", "Node", klog.KObj(node), "Machine", klog.KObj(machine), "providerID", node.Spec.ProviderID)
		}
	}
	return errors.Join(problems...)
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
