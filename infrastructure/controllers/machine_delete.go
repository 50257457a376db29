package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/patch"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/claims"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hostclient"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cleanup"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/ownership"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/background"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

// reconcileDelete releases the machine's host, clean or in quarantine, and removes the finalizer. It needs only the host:
// Machine, Cluster and bootstrap data may be gone.
func (r *MachineReconciler) reconcileDelete(ctx context.Context, machine *infrav1.IDCMachine) (_ ctrl.Result, reterr error) {
	if !controllerutil.ContainsFinalizer(machine, infrav1.IDCMachineFinalizer) {
		return ctrl.Result{}, nil
	}
	c := claims.Claims{Client: r.Client, Live: r.APIReader}
	host, err := c.Held(ctx, machine)
	if err != nil {
		return ctrl.Result{}, err
	}
	if host == nil {
		r.work.Forget(client.ObjectKeyFromObject(machine))
		return ctrl.Result{}, r.removeFinalizer(ctx, machine)
	}
	quarantine, message := r.cleanUp(machine, host)
	if message == "" {
		return ctrl.Result{RequeueAfter: raceRetry}, r.giveBack(ctx, &c, machine, host, quarantine)
	}
	helper, err := patch.NewHelper(machine, r.Client)
	if err != nil {
		return ctrl.Result{}, err
	}
	defer func() { reterr = errors.Join(reterr, r.write(ctx, helper, machine, reterr == nil)) }()
	conditions.Set(machine, condition(infrav1.DeletingCondition, metav1.ConditionTrue, infrav1.CleaningUpReason, message))
	conditions.Set(machine, condition(infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.CleaningUpReason, message))
	return ctrl.Result{RequeueAfter: cleanUpRetry}, nil
}

// cleanUp cleans up the host in the background. A message means that this has not ended. Without a message it has ended:
// with a quarantine when it failed, with nil when the host is clean.
func (r *MachineReconciler) cleanUp(machine *infrav1.IDCMachine, host *infrav1.IDCHost) (*infrav1.HostQuarantine, string) {
	key := background.Key{Object: client.ObjectKeyFromObject(machine), Kind: workKind}
	seen := cleanUp(r.work, key, r.Hosts, host, machine.Spec.InstanceID, cleanUpRetry)
	if seen == nil {
		return nil, fmt.Sprintf("IDCHost %s is being cleaned", host.Name)
	}
	if seen.err == nil {
		return nil, ""
	}
	if wasRefused(machine) && neverOurs(seen.err) {
		return nil, ""
	}
	quarantine := &infrav1.HostQuarantine{
		Reason: fmt.Sprintf("the clean-up after IDCMachine %s failed: %v", machine.Name, seen.err),
		Since:  metav1.NewTime(r.Clock.Now()),
	}
	end := machine.DeletionTimestamp.Add(r.CleanUpTimeout)
	switch failed := hostclient.HostFailed(seen.err); {
	case !failed && r.Clock.Now().Before(end):
		return nil, fmt.Sprintf("IDCHost %s is not clean yet: %v; the machine goes without it at %s", host.Name, seen.err, end.UTC().Format(time.RFC3339))
	case !failed:
		quarantine.InstanceID = machine.Spec.InstanceID
	case seen.tries < cleanUpTries:
		return nil, fmt.Sprintf("IDCHost %s is not clean yet: %v; it is tried again, and put into quarantine after %d failures", host.Name, seen.err, cleanUpTries)
	}
	return quarantine, ""
}

// wasRefused reports whether the machine changed nothing on its host, because the host is in use.
func wasRefused(machine *infrav1.IDCMachine) bool {
	return conditions.GetReason(machine, infrav1.BootstrappedCondition) == infrav1.InUseReason && !ptr.Deref(machine.Status.Initialization.Provisioned, false)
}

// neverOurs reports whether a clean-up changed nothing, because nothing on the host is the machine's. The next probe finds
// what else is on the host, and no machine claims it.
func neverOurs(err error) bool {
	var inUse *ownership.InUseError
	var unclean *cleanup.UncleanError
	return errors.As(err, &inUse) || errors.As(err, &unclean) && unclean.NoRecord
}

// giveBack releases the host. The next reconcile removes the machine's finalizer.
func (r *MachineReconciler) giveBack(ctx context.Context, c *claims.Claims, machine *infrav1.IDCMachine, host *infrav1.IDCHost, quarantine *infrav1.HostQuarantine) error {
	// From here on the HostReconciler may clean up the host.
	r.work.Forget(client.ObjectKeyFromObject(machine))
	if err := c.Release(ctx, host, quarantine); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return ignoreRace(ctx, err)
	}
	if quarantine == nil {
		if wasRefused(machine) {
			r.event(machine, "HostReleased", "CleanUp", "IDCHost %s is given back as it was", host.Name)
			return nil
		}
		r.event(machine, "HostReleased", "CleanUp", "IDCHost %s is clean and free", host.Name)
		return nil
	}
	ctrl.LoggerFrom(ctx).Info("The host is in quarantine", "IDCHost", klog.KObj(host), "reason", quarantine.Reason)
	r.recorder.Eventf(host, machine, corev1.EventTypeWarning, "Quarantined", "CleanUp", "%s", errortext.Short(quarantine.Reason, longestNote))
	return nil
}

// longestNote is the most bytes of a note: an API server refuses an Event with a longer one.
const longestNote = 1024

// removeFinalizer lets the API server delete the machine.
func (r *MachineReconciler) removeFinalizer(ctx context.Context, machine *infrav1.IDCMachine) error {
	before := machine.DeepCopy()
	controllerutil.RemoveFinalizer(machine, infrav1.IDCMachineFinalizer)
	if err := r.Client.Patch(ctx, machine, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return ignoreRace(ctx, fmt.Errorf("remove the finalizer: %w", err))
	}
	return nil
}
