// Package controllers reconciles KOKConfigs: it makes the bootstrap data of each machine once, keeps
// the machine's bootstrap token valid until it has joined, and revokes it then. Until an infrastructure provider uses the data, the
// controller keeps the cluster CAs in it up to date.
//
// The Secret with the bootstrap data is the record of the token. The controller writes it first, then makes the tenant
// accept the token in it, and only then hands the data out. So after a manager that ended in the middle the next one goes
// on with the same token.
package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/patch"
	"sigs.k8s.io/cluster-api/util/paused"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

// Reconciler reconciles KOKConfigs.
type Reconciler struct {
	// Client writes to the management cluster. Its reads come from a cache, which has the content only of Secrets with
	// certificate authorities and kubeconfigs.
	Client client.Client
	// APIReader reads from the management cluster's API server.
	APIReader client.Reader
	// Tenants has connections to tenants.
	Tenants clustercache.ClusterCache
	// TenantProblem says why there may be no connection to the tenant of a Cluster; empty when that is not known.
	TenantProblem func(cluster client.ObjectKey) string
	// Clock judges how long tokens live.
	Clock clock.Clock
	// TokenTTL is how long a token lives; it is renewed at half of it.
	TokenTTL time.Duration
	// WatchFilterValue restricts the controller to objects with this value of Cluster API's watch label.
	WatchFilterValue string

	recorder events.EventRecorder
}

// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=kokconfigs,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=kokconfigs/status,verbs=patch
// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=kokconfigs/finalizers,verbs=update
// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=koksoftwares,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=kokcontrolplanes,verbs=get
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// Reconcile brings one config a step closer to a machine that has joined.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (_ ctrl.Result, reterr error) {
	config := &bootstrapv1.KOKConfig{}
	if err := r.Client.Get(ctx, request.NamespacedName, config); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if r.WatchFilterValue != "" && config.Labels[clusterv1.WatchLabel] != r.WatchFilterValue {
		return ctrl.Result{}, nil
	}
	if !config.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	machine, err := util.GetOwnerMachine(ctx, r.Client, config.ObjectMeta)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("read the Machine that owns the config: %w", err)
	}
	if machine == nil || err != nil {
		if ownedByMachinePool(config) {
			return ctrl.Result{}, r.refuseMachinePool(ctx, config)
		}
		ctrl.LoggerFrom(ctx).V(4).Info("Waiting for a Machine that owns this config")
		return ctrl.Result{}, nil
	}
	cluster, err := util.GetClusterByName(ctx, r.Client, machine.Namespace, machine.Spec.ClusterName)
	if apierrors.IsNotFound(err) {
		ctrl.LoggerFrom(ctx).Info("Waiting for the Cluster of the Machine", "Machine", klog.KObj(machine))
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read the Cluster %s of the Machine: %w", machine.Spec.ClusterName, err)
	}
	ctx = ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithValues("Cluster", klog.KObj(cluster), "Machine", klog.KObj(machine)))

	if isPaused, requeue, err := paused.EnsurePausedCondition(ctx, r.Client, cluster, config); err != nil || isPaused || requeue {
		return ctrl.Result{}, err
	}
	s := &scope{config: config, machine: machine, cluster: cluster}
	if late, err := r.cacheIsLate(ctx, s); late || err != nil {
		return ctrl.Result{}, err
	}
	helper, err := patch.NewHelper(config, r.Client)
	if err != nil {
		return ctrl.Result{}, err
	}
	defer func() { reterr = errors.Join(reterr, write(ctx, helper, config, reterr == nil)) }()

	return r.reconcile(ctx, s)
}

func (r *Reconciler) reconcile(ctx context.Context, s *scope) (ctrl.Result, error) {
	if !s.created() && s.machine.Spec.Bootstrap.DataSecretName != nil {
		// A move to another management cluster or a restore drops status. The Machine's spec still has the name.
		s.setCreated(*s.machine.Spec.Bootstrap.DataSecretName)
	}
	if s.created() {
		return r.keep(ctx, s)
	}
	return r.create(ctx, s)
}

// keep repairs owner and label of the Secret, keeps the cluster CAs in the bootstrap data up to date until the data is used, and keeps the token
// valid until the machine has joined. It changes nothing else in the Secret: an infrastructure provider may have read it.
func (r *Reconciler) keep(ctx context.Context, s *scope) (ctrl.Result, error) {
	found, err := r.keepSecret(ctx, s)
	if found && err == nil {
		err = r.keepTrust(ctx, s)
	}
	switch {
	case err != nil && !apierrors.IsConflict(err):
		s.set(bootstrapv1.DataSecretAvailableCondition, metav1.ConditionUnknown, bootstrapv1.ReconcileFailedReason, errortext.Steady(err))
		return ctrl.Result{}, err
	case err != nil:
		return ctrl.Result{}, err
	case !found && !s.used():
		ctrl.LoggerFrom(ctx).Info("The bootstrap data was deleted before it was used; making it again")
		return r.create(ctx, s)
	case !found && !s.joined() && s.config.Annotations[bootstrapv1.TokenRevokedAnnotation] == "":
		s.unavailable(bootstrapv1.DataSecretLostReason, fmt.Sprintf(
			"Secret %s was deleted while the machine was being made; its token is not renewed any more. Delete the Machine when it does not join", s.config.Status.DataSecretName))
		return ctrl.Result{}, nil
	}
	s.available()
	return r.keepToken(ctx, s)
}

// keepToken keeps the token valid while the machine needs it. When that fails, the condition is Unknown.
func (r *Reconciler) keepToken(ctx context.Context, s *scope) (result ctrl.Result, err error) {
	ended := s.joined() || !s.machine.DeletionTimestamp.IsZero()
	if !ended {
		ended, err = r.revokedBefore(ctx, s)
	}
	switch {
	case err != nil:
	case ended:
		result, err = r.revoke(ctx, s)
	default:
		result, err = r.renew(ctx, s)
	}
	if err != nil && !apierrors.IsConflict(err) {
		s.set(bootstrapv1.BootstrapTokenValidCondition, metav1.ConditionUnknown, bootstrapv1.BootstrapTokenUnknownReason, errortext.Steady(err))
	}
	return result, err
}
