package controllers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clientevents "k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/patch"
	"sigs.k8s.io/cluster-api/util/paused"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addresses"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/clusters"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/deletion"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdmembers"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/events"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/keyrotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/metrics"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/secrets"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/supported"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/watches"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/tenantapi"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/writes"
)

// Reconciler reconciles KOKControlPlanes.
type Reconciler struct {
	// Client writes to the management cluster; its reads come from a cache.
	Client client.Client
	// APIReader reads from the management cluster's API server.
	APIReader client.Reader
	// Host is the management cluster as a host cluster, that of control planes which name no other.
	Host *Host
	// HostClusters are the others.
	HostClusters *hostclusters.Clusters
	// Versions has the table of Kubernetes versions that is in force, and reconciles all when it is another.
	Versions *supported.Versions
	// Allow holds stored renderings to the limits of the manager's flags; nil for none.
	Allow patches.Allow
	// Clock judges the validity of certificates.
	Clock clock.Clock
	// WatchFilterValue restricts the controller to objects with this value of Cluster API's watch label.
	WatchFilterValue string
	// EtcdAgentImage is the image of kok-etcd-agent for members of new renderings; empty for none.
	EtcdAgentImage string
	// NodeKeysImage is the image of kok-node-keys, which is on nodes while the cluster CA rotates; empty for none.
	NodeKeysImage string
	// EtcdDefragmentEvery is operator.Etcd's DefragmentEvery.
	EtcdDefragmentEvery time.Duration
	// StatusWrites writes status.
	StatusWrites status.Writes

	// etcd is how etcd clusters are reached.
	etcd     operator.Etcd
	recorder clientevents.EventRecorder
	steps    *flow.Graph[*scope]
	// figures are what metrics say of each control plane.
	figures metrics.Figures
	// written is what this program last wrote of each control plane's status.
	written events.Written
	// etcdOperator observes and changes etcd clusters: an operator.Operator, so that no reconcile waits for them.
	etcdOperator etcdmembers.Operator
	// prober probes tenants: a probe.Prober, so that no reconcile waits for them.
	prober prober
	// guards stand before tenants.
	guards tenantapi.Guards
	// reads limits how many etcds are read at the same time.
	reads keyrotation.Reads
	// hosts are HostClusters unless a test has none.
	hosts hostClusters
}

// prober is what reconciles see of a probe.Prober.
type prober interface {
	Probe(probe.Key, probe.Probe) (probe.Result, bool)
	Withdraw(probe.Key)
	Forget(controlPlane client.ObjectKey)
}

// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=kokcontrolplanes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=kokcontrolplanes/status,verbs=patch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=kokcontrolplanes/finalizers,verbs=update
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=koketcdsnapshots,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=koketcdsnapshots/status,verbs=update
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=statefulsets;daemonsets;deployments;controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps,resources=replicasets,verbs=list;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services;configmaps,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=list;delete
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=events,verbs=list
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// Reconcile brings one control plane a step closer to its spec.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (result ctrl.Result, reterr error) {
	kept, hosted := false, false
	defer func() {
		// It is gone, deleted, paused, or not the one that its Cluster names.
		if reterr == nil && !kept {
			r.endBackground(request.NamespacedName)
		}
		if reterr == nil && !hosted {
			r.hosts.Release(request.NamespacedName)
		}
	}()
	controlPlane := &controlplanev1.KOKControlPlane{}
	if err := r.Client.Get(ctx, request.NamespacedName, controlPlane); err != nil {
		if apierrors.IsNotFound(err) {
			r.figures.Forget(request.NamespacedName)
			r.written.Forget(request.NamespacedName)
			r.StatusWrites.Forget(request.NamespacedName)
			return ctrl.Result{}, r.backups().Release(writes.Because(ctx, "deletion"), request.NamespacedName)
		}
		return ctrl.Result{}, err
	}
	if r.WatchFilterValue != "" && controlPlane.Labels[clusterv1.WatchLabel] != r.WatchFilterValue {
		return ctrl.Result{}, nil
	}
	cluster, err := r.clusterOf(ctx, controlPlane)
	if err != nil {
		return ctrl.Result{}, err
	}
	if controlPlane.DeletionTimestamp.IsZero() {
		if cluster == nil {
			ctrl.LoggerFrom(ctx).Info("Waiting for a Cluster that names this control plane")
			return ctrl.Result{}, nil
		}
		if !clusters.NamesControlPlane(cluster, controlPlane) {
			return ctrl.Result{}, r.refuseUnreferenced(ctx, cluster, controlPlane)
		}
	}
	if cluster != nil {
		ctx = ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithValues("Cluster", klog.KObj(cluster)))
	}

	if added, err := r.ensureFinalizer(writes.Because(ctx, "finalizer"), cluster, controlPlane); err != nil || added {
		return ctrl.Result{}, err
	}
	if isPaused, requeue, err := paused.EnsurePausedCondition(writes.Because(ctx, "paused"), r.Client, clusterOrEmpty(cluster), controlPlane); err != nil || isPaused || requeue {
		return ctrl.Result{}, err
	}

	stored, did := controlPlane.DeepCopy(), &events.Deeds{}
	before := r.written.Last(stored)
	helper, err := patch.NewHelper(controlPlane, r.Client)
	if err != nil {
		return ctrl.Result{}, err
	}
	defer func() {
		after := controlPlane
		later, err := r.StatusWrites.Write(ctx, helper, stored, controlPlane, reterr == nil)
		if err != nil || later > 0 {
			after = before // The next reconcile finds the changes of status again.
		}
		result, reterr = util.LowestNonZeroResult(result, ctrl.Result{RequeueAfter: later}), errors.Join(reterr, err)
		events.Record(r.recorder, controlPlane, events.Of(before, after, did))
		r.written.Keep(after)
	}()

	if !controlPlane.DeletionTimestamp.IsZero() {
		if err := r.backups().Release(writes.Because(ctx, "deletion"), request.NamespacedName); err != nil {
			return ctrl.Result{}, err
		}
		result, err := r.deleter().Reconcile(writes.Because(ctx, "deletion"), cluster, controlPlane)
		hosted = controllerutil.ContainsFinalizer(controlPlane, controlplanev1.KOKControlPlaneFinalizer)
		return result, err
	}
	kept, hosted = true, true
	return r.reconcile(ctx, cluster, controlPlane, did)
}

// endBackground ends what is done beside reconciles for a control plane: its etcds and its tenant must not be probed any
// more, let alone written to.
func (r *Reconciler) endBackground(controlPlane client.ObjectKey) {
	r.prober.Forget(controlPlane)
	r.etcdOperator.Forget(controlPlane)
}

func (r *Reconciler) reconcile(ctx context.Context, cluster *clusterv1.Cluster, controlPlane *controlplanev1.KOKControlPlane, did *events.Deeds) (ctrl.Result, error) {
	blockMove(controlPlane, !controlPlane.Spec.Hosting.OnAnotherCluster())
	host, err := r.hostOf(ctx, cluster, controlPlane)
	if err != nil {
		var problem *hostclusters.Problem
		if errors.As(err, &problem) {
			return r.withoutHost(controlPlane, problem), nil
		}
		return ctrl.Result{}, err
	}
	s := newScope(cluster, controlPlane, r.Versions.Table(), host, r.store(host), r.Clock.Now())
	s.deeds, s.input.EtcdAgentImage = did, r.EtcdAgentImage
	s.adopter().Judge(ctx, r.Allow, r.Versions.Table())
	if host.Warning != "" {
		s.note(errors.New(host.Warning))
	}
	if err := errors.Join(s.gather(ctx), r.readHistory(ctx, s), r.readRestore(ctx, s)); err != nil {
		return ctrl.Result{}, err
	}
	if err := recoverEtcd(ctx, s); err != nil {
		return ctrl.Result{}, err
	}
	s.applyRestore() // At once: status that says an etcd is bootstrapped must not be written before.
	if err := r.readFormerEvents(ctx, s); err != nil {
		return ctrl.Result{}, err
	}
	recoverVersions(s)
	if s.problem = invalid(s); s.problem != nil && !runs(controlPlane) {
		return invalidSpec(ctx, controlPlane, s.problem)
	}
	s.outcomes = r.steps.Run(ctx, s)

	seen, err := r.observe(ctx, s)
	if err != nil {
		return ctrl.Result{}, errors.Join(err, stepErrors(s))
	}
	if s.keepLastStatus() {
		return r.result(ctx, s, controlPlane)
	}
	if err := s.noteRoom(ctx, seen); err != nil {
		return ctrl.Result{}, errors.Join(err, stepErrors(s))
	}
	wasInitialized := conditions.IsTrue(controlPlane, conditionsv1.InitializedCondition)
	ran := controlPlane.Status.Versions
	in := s.statusInput()
	status.Set(in, seen)
	r.figures.Record(in, seen, s.firstEnd)
	if events.Upgraded(ran, controlPlane.Status.Versions) != "" {
		since, err := s.revisions.RenderedSince(ctx, s.key, names.KubeAPIServer, s.input.Version)
		if err != nil {
			return ctrl.Result{}, err
		}
		if !since.IsZero() {
			did.UpgradeTook = r.Clock.Since(since)
		}
	}
	if !wasInitialized && conditions.IsTrue(controlPlane, conditionsv1.InitializedCondition) {
		r.recorder.Eventf(controlPlane, nil, corev1.EventTypeNormal, "Initialized", "Initialize",
			"The API of %s answers at %s", s.input.Version, addresses.HostPort(controlPlane.Spec.ControlPlaneEndpoint))
	}
	return r.result(ctx, s, controlPlane)
}

// runs reports whether there is a tenant that must be kept up: its API answered once, or one of its etcd clusters was bootstrapped. After a
// move the condition Initialized is gone, and only etcd shows it.
func runs(controlPlane *controlplanev1.KOKControlPlane) bool {
	return conditions.IsTrue(controlPlane, conditionsv1.InitializedCondition) ||
		slices.ContainsFunc(etcdcomponent.All, func(cluster etcdcomponent.Cluster) bool {
			return etcdclusters.Bootstrapped(controlPlane, cluster.Component)
		})
}

// invalid says why a control plane must not be made. A control plane that runs already is kept up all the same: a rule of a newer manager
// must not end that.
func invalid(s *scope) error {
	problems := append(clusters.Validate(s.cluster), clusters.ValidateNodeRanges(s.cluster, s.controlPlane.Spec.KubeControllerManager.ExtraArgs)...)
	if len(problems) > 0 {
		return fmt.Errorf("the Cluster cannot have a control plane: %w", problems.ToAggregate())
	}
	if err := errors.Join(addresses.ValidateEndpoint(s.cluster, s.controlPlane), addresses.ValidateHostCluster(s.cluster, s.controlPlane), addresses.ValidateListener(&s.input)); err != nil {
		return err
	}
	if s.refused != nil {
		return s.refused
	}
	return s.unsupported
}

// invalidSpec is for what only a person can resolve: nothing is touched, and a change wakes the
// controller. The Secret of another host cluster is read again all the same: nothing watches it.
// The webhook reads reason InvalidSpec as: nothing of this control plane runs.
func invalidSpec(ctx context.Context, controlPlane *controlplanev1.KOKControlPlane, problem error) (ctrl.Result, error) {
	ctrl.LoggerFrom(ctx).Info("A person must act", "reason", problem.Error())
	status.Invalid(controlPlane, conditionsv1.InvalidSpecReason, problem.Error())
	if controlPlane.Spec.Hosting.OnAnotherCluster() {
		return ctrl.Result{RequeueAfter: settledInterval}, nil
	}
	return ctrl.Result{}, nil
}

// blockMove keeps clusterctl move from taking along a control plane whose pods are in this cluster.
func blockMove(controlPlane *controlplanev1.KOKControlPlane, block bool) {
	if !block {
		delete(controlPlane.Annotations, clusterctlv1.BlockMoveAnnotation)
		return
	}
	annotations.AddAnnotations(controlPlane, map[string]string{clusterctlv1.BlockMoveAnnotation: "true"})
}

// settledInterval is how often a settled control plane is looked at although nothing happened.
const settledInterval = time.Minute

// result says when to look again: at once after an error, soon while something is unhealthy that no
// watch reports, at the latest when a certificate is due.
func (r *Reconciler) result(ctx context.Context, s *scope, controlPlane *controlplanev1.KOKControlPlane) (ctrl.Result, error) {
	if err := stepErrors(s); err != nil {
		return ctrl.Result{}, err
	}
	raced := false
	for _, outcome := range s.outcomes {
		switch {
		case outcome.Raced():
			ctrl.LoggerFrom(ctx).V(4).Info("Another write was faster", "step", outcome.Name, "err", outcome.Err())
			raced = true
		case outcome.Blocked():
			ctrl.LoggerFrom(ctx).Info("A person must act", "step", outcome.Name, "reason", outcome.Err().Error())
		}
	}
	after := settledInterval
	switch {
	case raced:
		after = 100 * time.Millisecond
	case !conditions.IsTrue(controlPlane, conditionsv1.EtcdClusterHealthyCondition),
		!conditions.IsTrue(controlPlane, conditionsv1.ControlPlaneComponentsHealthyCondition):
		after = 10 * time.Second
	}
	if due := s.nextRenewal.Sub(r.Clock.Now()); !s.nextRenewal.IsZero() && due < after {
		after = max(due, time.Second)
	}
	return ctrl.Result{RequeueAfter: after + rand.N(after/10)}, nil
}

// stepErrors are the errors of steps that are worth another try at once.
func stepErrors(s *scope) error {
	var failed []error
	for _, outcome := range s.outcomes {
		if outcome.Failed() {
			failed = append(failed, fmt.Errorf("step %s: %w", outcome.Name, outcome.Err()))
		}
	}
	return errors.Join(failed...)
}

func (r *Reconciler) deleter() *deletion.Deleter {
	return &deletion.Deleter{Reader: r.APIReader, Management: r.Host, HostOf: r.hostOf, EndBackground: r.endBackground}
}

func (r *Reconciler) store(host *Host) *pki.Store {
	return &pki.Store{
		Management: secrets.Access{Cached: r.Client, Live: r.APIReader, Writer: r.Client},
		Host:       secrets.Access{Cached: host.Client, Live: host.Live, Writer: host.Client},
	}
}

// clusterOf is the Cluster of a control plane: the one that owns it or, until Cluster API's core has
// written the owner reference, the only one that names it. Nil while there is none, or when a
// deletion outlives it.
func (r *Reconciler) clusterOf(ctx context.Context, controlPlane *controlplanev1.KOKControlPlane) (*clusterv1.Cluster, error) {
	cluster, err := util.GetOwnerCluster(ctx, r.Client, controlPlane.ObjectMeta)
	if apierrors.IsNotFound(err) && !controlPlane.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the Cluster that owns the control plane: %w", err)
	}
	if cluster != nil {
		return cluster, nil
	}
	list := &clusterv1.ClusterList{}
	if err := r.Client.List(ctx, list, client.InNamespace(controlPlane.Namespace), client.MatchingFields{watches.ControlPlaneRefIndex: controlPlane.Name}); err != nil {
		return nil, fmt.Errorf("find the Cluster that names the control plane: %w", err)
	}
	if len(list.Items) != 1 {
		return nil, nil
	}
	return &list.Items[0], nil
}

func clusterOrEmpty(cluster *clusterv1.Cluster) *clusterv1.Cluster {
	if cluster == nil {
		return &clusterv1.Cluster{}
	}
	return cluster
}
