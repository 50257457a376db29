package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/patch"
	"sigs.k8s.io/cluster-api/util/paused"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/claims"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hostclient"
)

// MachineReconciler claims hosts for IDCMachines, bootstraps them, and releases them clean.
type MachineReconciler struct {
	// Client writes; its reads come from a cache.
	Client client.Client
	// APIReader reads from the API server.
	APIReader client.Reader
	// Hosts works on hosts.
	Hosts hostclient.Client
	// Clock measures how long a clean-up takes.
	Clock clock.PassiveClock
	// CleanUpTimeout is how long the deletion of a machine waits for a host that is away. Then the machine goes, so that
	// another takes its place, and the host is in quarantine until it was cleaned up.
	CleanUpTimeout time.Duration
	// WatchFilterValue restricts the controller to objects with this value of Cluster API's watch label.
	WatchFilterValue string

	work     runner
	recorder events.EventRecorder
}

// DefaultCleanUpTimeout is the default of CleanUpTimeout. It is short, because the host is cleaned up later, once it answers
// again.
const DefaultCleanUpTimeout = time.Minute

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=idcmachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=idcmachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=idchosts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// Reconcile brings one machine a step closer to its spec, or to its end.
func (r *MachineReconciler) Reconcile(ctx context.Context, request ctrl.Request) (_ ctrl.Result, reterr error) {
	active := false
	defer func() {
		// The machine is gone, moved away, paused or another manager's: end the work on its host.
		if reterr == nil && !active {
			r.work.Forget(request.NamespacedName)
		}
	}()
	machine := &infrav1.IDCMachine{}
	if err := r.Client.Get(ctx, request.NamespacedName, machine); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if r.WatchFilterValue != "" && machine.Labels[clusterv1.WatchLabel] != r.WatchFilterValue || movedAway(machine) {
		return ctrl.Result{}, nil
	}
	owner, cluster, err := r.ownersOf(ctx, machine)
	if err != nil {
		return ctrl.Result{}, err
	}
	if machine.DeletionTimestamp.IsZero() {
		if owner == nil || cluster == nil {
			ctrl.LoggerFrom(ctx).Info("Waiting for a Machine and a Cluster that own this machine")
			return ctrl.Result{}, nil
		}
		ctx = ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithValues("Machine", klog.KObj(owner), "Cluster", klog.KObj(cluster)))
		if added, err := r.ensureFinalizer(ctx, machine); err != nil || added {
			return ctrl.Result{}, err
		}
	}
	if isPaused, requeue, err := paused.EnsurePausedCondition(ctx, r.Client, cluster, machine); err != nil || isPaused || requeue {
		return ctrl.Result{}, err
	}
	active = true
	if !machine.DeletionTimestamp.IsZero() {
		return r.reconcileDelete(ctx, machine)
	}
	return r.reconcile(ctx, cluster, owner, machine)
}

// ownersOf returns a machine's Machine and Cluster. Each is nil while it is not known, or when it is gone before a machine
// that is being deleted.
func (r *MachineReconciler) ownersOf(ctx context.Context, machine *infrav1.IDCMachine) (*clusterv1.Machine, *clusterv1.Cluster, error) {
	deleting := !machine.DeletionTimestamp.IsZero()
	owner, err := util.GetOwnerMachine(ctx, r.Client, machine.ObjectMeta)
	if err != nil && (!deleting || !apierrors.IsNotFound(err)) {
		return nil, nil, fmt.Errorf("read the Machine that owns this machine: %w", err)
	}
	cluster, err := util.GetClusterFromMetadata(ctx, r.Client, machine.ObjectMeta)
	if errors.Is(err, util.ErrNoCluster) || apierrors.IsNotFound(err) {
		return owner, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the Cluster of this machine: %w", err)
	}
	return owner, cluster, nil
}

// ensureFinalizer gives a new machine its finalizer and its instance ID, before a host is claimed for it.
func (r *MachineReconciler) ensureFinalizer(ctx context.Context, machine *infrav1.IDCMachine) (bool, error) {
	if controllerutil.ContainsFinalizer(machine, infrav1.IDCMachineFinalizer) && machine.Spec.InstanceID != "" {
		return false, nil
	}
	before := machine.DeepCopy()
	controllerutil.AddFinalizer(machine, infrav1.IDCMachineFinalizer)
	if machine.Spec.InstanceID == "" {
		machine.Spec.InstanceID = string(uuid.NewUUID())
	}
	if err := r.Client.Patch(ctx, machine, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return false, ignoreRace(ctx, fmt.Errorf("add the finalizer: %w", err))
	}
	return true, nil
}

// ignoreRace returns nil when another write was faster: the watch brings what it wrote.
func ignoreRace(ctx context.Context, err error) error {
	if err != nil && apierrors.IsConflict(err) {
		ctrl.LoggerFrom(ctx).V(4).Info("Another write was faster", "err", err)
		return nil
	}
	return err
}

// raceRetry is how soon to reconcile again when another write was faster.
const raceRetry = 100 * time.Millisecond

func (r *MachineReconciler) reconcile(ctx context.Context, cluster *clusterv1.Cluster, owner *clusterv1.Machine, machine *infrav1.IDCMachine) (_ ctrl.Result, reterr error) {
	s := &machineScope{machine: machine, owner: owner, cluster: cluster}
	s.waiting = waitingFor(cluster, owner, machine)
	if s.waiting == nil {
		c := claims.Claims{Client: r.Client, Live: r.APIReader, Check: r.checkHost}
		had := machine.Spec.ProviderID != ""
		claim, err := c.Claim(ctx, machine, owner.Spec.FailureDomain)
		if err != nil {
			if apierrors.IsConflict(err) {
				return ctrl.Result{RequeueAfter: raceRetry}, nil
			}
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		if claim.Checking {
			return ctrl.Result{RequeueAfter: probeTimeout}, nil // The end of the probe wakes this machine.
		}
		if claim.Host == nil && claim.Problem == "" {
			return ctrl.Result{RequeueAfter: raceRetry}, nil
		}
		s.claim = claim
		if claim.Host != nil && !had {
			r.work.Forget(client.ObjectKeyFromObject(machine)) // Checks of hosts.
			r.event(machine, "HostClaimed", "Claim", "IDCHost %s is reserved", claim.Host.Name)
		}
	}
	helper, err := patch.NewHelper(machine, r.Client)
	if err != nil {
		return ctrl.Result{}, err
	}
	defer func() { reterr = errors.Join(reterr, r.write(ctx, helper, machine, reterr == nil)) }()

	if s.claim.Host != nil && !ptr.Deref(machine.Status.Initialization.Provisioned, false) {
		if err := r.bootstrap(ctx, s); err != nil {
			return ctrl.Result{}, err
		}
	}
	updateMachineStatus(s)
	if ptr.Deref(machine.Status.Initialization.Provisioned, false) {
		r.work.Forget(client.ObjectKeyFromObject(machine))
	}
	if s.claim.Host == nil || s.progress.failed() {
		return ctrl.Result{RequeueAfter: time.Minute}, nil
	}
	return ctrl.Result{}, nil
}

// waitingFor says what a machine waits for before it gets a host; nil for nothing, and for a machine that has one.
func waitingFor(cluster *clusterv1.Cluster, owner *clusterv1.Machine, machine *infrav1.IDCMachine) *waiting {
	switch {
	case machine.Spec.ProviderID != "":
		return nil
	case !ptr.Deref(cluster.Status.Initialization.InfrastructureProvisioned, false):
		return &waiting{infrav1.WaitingForClusterReason, fmt.Sprintf("waiting for the infrastructure of Cluster %s", cluster.Name)}
	case owner.Spec.Bootstrap.DataSecretName == nil:
		return &waiting{infrav1.WaitingForBootstrapDataReason, fmt.Sprintf("waiting for the bootstrap data of Machine %s", owner.Name)}
	default:
		return nil
	}
}

func (r *MachineReconciler) write(ctx context.Context, helper *patch.Helper, machine *infrav1.IDCMachine, observed bool) error {
	options := []patch.Option{patch.WithOwnedConditions{Conditions: ownedMachineConditions}}
	if observed {
		options = append(options, patch.WithStatusObservedGeneration{})
	}
	err := helper.Patch(ctx, machine, options...)
	if !machine.DeletionTimestamp.IsZero() {
		err = kerrors.FilterOut(err, apierrors.IsNotFound)
	}
	if err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	return nil
}
