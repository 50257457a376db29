package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/patch"
	"sigs.k8s.io/cluster-api/util/paused"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/claims"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hostclient"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/ownership"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/background"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

// runner is what reconciles see of a background.Runner.
type runner interface {
	Run(background.Key, background.Task) (background.Outcome, bool)
	Forget(object client.ObjectKey)
	Withdraw(background.Key)
}

// HostReconciler probes IDCHosts, and says in their status which of them machines may claim.
type HostReconciler struct {
	// Client writes; its reads come from a cache.
	Client client.Client
	// APIReader reads from the API server.
	APIReader client.Reader
	// Hosts works on hosts.
	Hosts hostclient.Client
	// WatchFilterValue restricts the controller to objects with this value of Cluster API's watch label.
	WatchFilterValue string

	probes   runner
	recorder events.EventRecorder
}

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=idchosts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=idchosts/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=idcmachines,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile writes the result of the last probe of one host into its status, and keeps the probe running.
func (r *HostReconciler) Reconcile(ctx context.Context, request ctrl.Request) (_ ctrl.Result, reterr error) {
	probing := false
	defer func() {
		if reterr == nil && !probing {
			r.probes.Forget(request.NamespacedName)
		}
	}()
	host := &infrav1.IDCHost{}
	if err := r.Client.Get(ctx, request.NamespacedName, host); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if r.WatchFilterValue != "" && host.Labels[clusterv1.WatchLabel] != r.WatchFilterValue || movedAway(host) {
		return ctrl.Result{}, nil
	}
	user, err := r.userOf(ctx, host)
	if err != nil {
		return ctrl.Result{}, err
	}
	if isPaused, requeue, err := paused.EnsurePausedCondition(ctx, r.Client, user.cluster, host); err != nil || isPaused || requeue {
		return ctrl.Result{}, err
	}
	helper, err := patch.NewHelper(host, r.Client)
	if err != nil {
		return ctrl.Result{}, err
	}
	defer func() {
		options := []patch.Option{patch.WithOwnedConditions{Conditions: ownedHostConditions}}
		if reterr == nil {
			options = append(options, patch.WithStatusObservedGeneration{})
		}
		err := helper.Patch(ctx, host, options...)
		if !host.DeletionTimestamp.IsZero() {
			err = kerrors.FilterOut(err, apierrors.IsNotFound)
		}
		if err != nil {
			reterr = errors.Join(reterr, fmt.Errorf("write the status: %w", err))
		}
	}()
	released, err := r.releaseDouble(ctx, host, user)
	if err != nil || released {
		return ctrl.Result{}, err
	}
	if err := r.markForMove(ctx, host); err != nil {
		return ctrl.Result{}, err
	}
	probing = true
	if freed, err := r.cleanLate(ctx, host); err != nil || freed {
		return ctrl.Result{}, err
	}
	seen, answered := r.probe(host)
	if err := seen.judge(ctx, r.Client, host, user.machine, instanceOf(host)); err != nil {
		return ctrl.Result{}, err
	}
	was := conditions.GetReason(host, infrav1.HealthyCondition) == infrav1.InUseReason
	setHostConditions(host, seen, answered, user)
	if !was && conditions.GetReason(host, infrav1.HealthyCondition) == infrav1.InUseReason {
		r.recorder.Eventf(host, nil, corev1.EventTypeWarning, infrav1.InUseReason, "Probe", "%s", errortext.Short(seen.problem.Message, longestNote))
	}
	return ctrl.Result{}, nil
}

// hostUser is the machine that has a host.
type hostUser struct {
	// machine is the one in the claim; nil when it is gone, or when another one has its name now.
	machine *infrav1.IDCMachine
	// cluster may pause the host. It is the machine's or, when the machine is gone, that of pausingCluster.
	cluster *clusterv1.Cluster
}

// userOf finds the machine that a host's claim names. When the cache lacks it, the API server is read.
func (r *HostReconciler) userOf(ctx context.Context, host *infrav1.IDCHost) (user hostUser, err error) {
	if host.Spec.Claim == nil {
		user.cluster, err = r.pausingCluster(ctx, host)
		return user, err
	}
	key := client.ObjectKey{Namespace: host.Namespace, Name: host.Spec.Claim.Name}
	machine := &infrav1.IDCMachine{}
	err = r.Client.Get(ctx, key, machine)
	if apierrors.IsNotFound(err) || err == nil && !claims.ClaimedBy(host, machine) {
		err = r.APIReader.Get(ctx, key, machine)
	}
	if apierrors.IsNotFound(err) {
		return user, nil
	}
	if err != nil {
		return user, fmt.Errorf("read the machine that claims the host: %w", err)
	}
	cluster, err := util.GetClusterFromMetadata(ctx, r.Client, machine.ObjectMeta)
	if err == nil {
		user.cluster = cluster
	} else if !apierrors.IsNotFound(err) && !errors.Is(err, util.ErrNoCluster) {
		return user, fmt.Errorf("read the Cluster of the machine that claims the host: %w", err)
	}
	if claims.ClaimedBy(host, machine) {
		user.machine = machine
	}
	return user, nil
}

// releaseDouble releases a host whose machine names another host by now. Nothing was done on this one: work begins only
// when host and machine name each other.
func (r *HostReconciler) releaseDouble(ctx context.Context, host *infrav1.IDCHost, user hostUser) (bool, error) {
	if user.machine == nil || user.machine.Spec.HostRef == nil || user.machine.Spec.HostRef.Name == host.Name {
		return false, nil
	}
	machine := &infrav1.IDCMachine{}
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(user.machine), machine); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if machine.Spec.HostRef == nil || machine.Spec.HostRef.Name == host.Name {
		return false, nil
	}
	ctrl.LoggerFrom(ctx).Info("The machine has another host; releasing this one", "IDCMachine", klog.KObj(machine), "hostOfMachine", machine.Spec.HostRef.Name)
	c := claims.Claims{Client: r.Client, Live: r.APIReader}
	return true, c.Release(ctx, host.DeepCopy(), nil)
}

// markForMove labels the Secrets with the host's keys, so that clusterctl move takes them along with the host.
func (r *HostReconciler) markForMove(ctx context.Context, host *infrav1.IDCHost) error {
	names := []string{host.Spec.KeySecretRef.Name}
	if host.Spec.Bastion != nil {
		names = append(names, host.Spec.Bastion.KeySecretRef.Name)
	}
	for _, name := range names {
		secret := &corev1.Secret{}
		err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: host.Namespace, Name: name}, secret)
		if apierrors.IsNotFound(err) {
			continue // The probe says so.
		}
		if err != nil {
			return fmt.Errorf("read Secret %s: %w", name, err)
		}
		if _, marked := secret.Labels[infrav1.MoveLabel]; marked || !secret.DeletionTimestamp.IsZero() {
			continue
		}
		before := secret.DeepCopy()
		if secret.Labels == nil {
			secret.Labels = map[string]string{}
		}
		secret.Labels[infrav1.MoveLabel] = ""
		if err := r.Client.Patch(ctx, secret, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("label Secret %s for clusterctl move: %w", name, err)
		}
	}
	return nil
}

const (
	probeTimeout = 30 * time.Second
	// probeInterval is how often a host that is well is probed, probeRetry how often another one.
	probeInterval = time.Minute
	probeRetry    = 15 * time.Second
)

// hostSeen is what a probe saw.
type hostSeen struct {
	facts   *probe.Facts
	problem *probe.Problem
	err     error
	// takenOver is the fact that a person allowed in spec.takeOver; empty for none.
	takenOver string
}

// instanceOf is the instance ID of the machine that a host carries as far as this inventory knows: in its claim, or in the note that it is to
// be cleaned of that machine; empty without both.
func instanceOf(host *infrav1.IDCHost) string {
	switch {
	case host.Spec.Claim != nil:
		return host.Spec.Claim.InstanceID
	case host.Spec.Quarantine != nil && host.Spec.Quarantine.InstanceID != "":
		return host.Spec.Quarantine.InstanceID
	}
	return host.Spec.UncleanInstanceID
}

// probe keeps a probe of the host running in the background, and returns the result of the last one; false before the first
// has ended.
func (r *HostReconciler) probe(host *infrav1.IDCHost) (hostSeen, bool) {
	host = host.DeepCopy()
	instanceID := instanceOf(host)
	outcome, ok := r.probes.Run(background.Key{Object: client.ObjectKeyFromObject(host), Kind: "probe"}, background.Task{
		// A claim, a release and the end of a quarantine make the last result invalid, and begin a new probe at once.
		Identity: fmt.Sprintf("%s/%s/%t", hostclient.Access(host), instanceID, host.Spec.Quarantine != nil),
		Timeout:  probeTimeout,
		Do: func(ctx context.Context) background.Outcome {
			seen := hostSeen{}
			seen.facts, seen.problem, seen.err = r.Hosts.Probe(ctx, host)
			return seen.outcome(instanceID)
		},
	})
	if !ok {
		return hostSeen{}, false
	}
	seen, isSeen := outcome.Value.(hostSeen)
	if !isSeen {
		seen.err = errors.New(outcome.Text)
	}
	return seen, true
}

// outcome is the outcome of a probe. A host with a problem, or in use, is probed again sooner, so that a repair shows soon.
func (s hostSeen) outcome(instanceID string) background.Outcome {
	outcome := background.Outcome{Value: s, Again: probeInterval}
	if s.err != nil {
		outcome.Text, outcome.Again = s.err.Error(), probeRetry
		return outcome
	}
	if s.problem != nil {
		outcome.Text, outcome.Again = s.problem.Message, probeRetry
	}
	if s.facts != nil {
		facts, err := json.Marshal(s.facts)
		if err != nil {
			panic(err) // Strings and numbers.
		}
		outcome.Text += string(facts)
		if ownership.Judge(&s.facts.Usage, &ownership.Claimant{InstanceID: instanceID}).Use == ownership.OfOthers {
			outcome.Again = probeRetry
		}
	}
	return outcome
}
