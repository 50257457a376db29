package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/hostnodes"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/recovery"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/recovery/seen"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// recoverMembers takes the next step of a replacement, if something may be lost. It returns the members that wait, with
// nothing left of the one before, to be added.
func (c *cluster) recoverMembers(ctx context.Context, report *Report) (acted bool, blank []int) {
	if !c.mayHaveLost(report.Health) {
		return false, nil
	}
	if says, still := c.isQuiet(ctx, report.Health); still {
		report.Recovery = says
		return false, nil
	}
	acted, report.Recovery = c.step(ctx, report.Health, func(ctx context.Context, health *etcd.Health) (decision, error) {
		found, err := c.belongings(ctx)
		if err != nil {
			report.FactsMissing = true
			return decision{}, err
		}
		state, err := c.recoveryState(ctx, health, found)
		if err != nil {
			report.FactsMissing = true
			return decision{}, err
		}
		if !health.Answered() {
			action := recovery.DecideUnanswered(state)
			report.NeedsDecision = action.Kind == recovery.NeedsDecision
			return decision{waitsFor: action.Reason}, nil
		}
		action := recovery.Decide(state)
		c.noteQuiet(health, state, action)
		blank, report.NeedsDecision = state.Blank(), action.Kind == recovery.NeedsDecision
		return c.decideRecovery(action, state, found, health), nil
	})
	return acted, blank
}

// mayHaveLost reports whether a member may have lost its data or its host node, without a look at the host cluster. Members that
// are not of this control plane count as voters of whom nothing is known, and package membership asks a person to remove them.
func (c *cluster) mayHaveLost(health *etcd.Health) bool {
	if !c.Bootstrapped || len(health.UnknownMembers) > 0 {
		return false
	}
	works := func(m etcd.Member) bool { return m.Err == nil && m.Answered && m.Follows && !m.Differs }
	return health.Err != nil || health.Disagree || !c.AllReady || len(c.Cordoned) > 0 || !c.membersAsDesired(health) ||
		slices.ContainsFunc(health.Members, func(m etcd.Member) bool { return !works(m) })
}

// decideRecovery is the step that was decided on.
func (c *cluster) decideRecovery(action recovery.Action, state recovery.State, found *belongings, health *etcd.Health) decision {
	switch action.Kind {
	case recovery.None:
		return decision{waitsFor: state.Joining()}
	case recovery.Wait, recovery.NeedsDecision:
		return decision{waitsFor: action.Reason}
	}
	return decision{act: func(ctx context.Context) (string, error) { return c.recoverMember(ctx, action, state, found, health) }}
}

// recoveryState is all that the next step of a replacement depends on, as etcd and the host cluster have it now. Whether a host
// node is spare is in it only where the step depends on that.
func (c *cluster) recoveryState(ctx context.Context, health *etcd.Health, found *belongings) (recovery.State, error) {
	hosts := c.hosts()
	state, err := c.membersBelongings(ctx, health, found, hosts)
	if err != nil || !state.NeedsSpare() {
		return state, err
	}
	state.Spare, err = hosts.Spare(ctx, found.pods, found.set)
	return state, err
}

// hosts are the host nodes of the control plane, none of which is read yet.
func (c *cluster) hosts() *hostnodes.Hosts {
	return hostnodes.New(c.Host.Live, c.Input.Spec.Hosting.HostNodeLabels(), c.operator.clock)
}

// membersBelongings is what is known of the members, without a look at other host nodes than theirs.
func (c *cluster) membersBelongings(ctx context.Context, health *etcd.Health, found *belongings, hosts *hostnodes.Hosts) (recovery.State, error) {
	state := recovery.State{
		Now:      c.operator.clock.Now(),
		Volatile: c.isVolatile(),
		Disagree: health.Disagree,
		ByHand:   c.byHand(health),
	}
	state.TakesSnapshot = fmt.Sprintf("kok etcd snapshot %s --namespace %s", c.Input.Cluster.Name, c.Input.Cluster.Namespace)
	command := fmt.Sprintf("kok etcd restore-in-place %s --namespace %s", c.Input.Cluster.Name, c.Input.Cluster.Namespace)
	if c.Cluster.Restorable() {
		state.Restores = command
	} else {
		state.FoundsAnew = command + " --events"
	}
	for _, m := range health.Members {
		member := recovery.Member{
			Name: m.Name, Ordinal: c.ordinal(m.Name), ID: m.ID,
			Started: m.Started, Learner: m.Learner, Leader: m.Leader, Healthy: m.Answered, Follows: m.Follows, Differs: m.Differs, Behind: health.Behind(m),
		}
		if err := c.addBelongings(ctx, &member, found, hosts); err != nil {
			return state, err
		}
		state.Members = append(state.Members, member)
	}
	return state, nil
}

// belongings are what the host cluster has of the members, by their names.
type belongings struct {
	// set is the StatefulSet of the cluster; nil while it has none.
	set  *appsv1.StatefulSet
	pods []corev1.Pod
	// claims are those of the members' data, and snapshots those of the volumes for snapshots that members have of their own.
	claims, snapshots map[string]*corev1.PersistentVolumeClaim
	services          map[string]*metav1.PartialObjectMetadata
}

func (c *cluster) belongings(ctx context.Context) (*belongings, error) {
	found := &belongings{claims: map[string]*corev1.PersistentVolumeClaim{}, snapshots: map[string]*corev1.PersistentVolumeClaim{}, services: map[string]*metav1.PartialObjectMetadata{}}
	var err error
	if found.set, err = c.statefulSet(ctx); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	byComponent, err := c.pods(ctx)
	if err != nil {
		return nil, err
	}
	found.pods = byComponent[c.Cluster.Component]
	ours := []client.ListOption{
		client.InNamespace(c.Input.Cluster.Namespace), client.MatchingLabels(names.ComponentLabels(c.Input.Cluster, c.Cluster.Component)),
	}
	claims, snapshots, err := AllVolumeClaims(ctx, c.Host.Live, c.Input.Cluster, c.Cluster.Component, c.claimNames(found.set)...)
	if err != nil {
		return nil, err
	}
	for i := range claims {
		found.claims[MemberOf(&claims[i])] = &claims[i]
	}
	for i := range snapshots {
		found.snapshots[strings.TrimPrefix(snapshots[i].Name, etcdcomponent.SnapshotsClaim(""))] = &snapshots[i]
	}
	services := &metav1.PartialObjectMetadataList{}
	services.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceList"))
	if err := c.Host.Live.List(ctx, services, ours...); err != nil {
		return nil, fmt.Errorf("list the Services of %s: %w", c.Cluster.Component, err)
	}
	for i := range services.Items {
		found.services[services.Items[i].Name] = &services.Items[i]
	}
	return found, nil
}

// claimNames are the names of the volume claims that members should have. What the StatefulSet was made with says whether they have volumes
// for snapshots of their own.
func (c *cluster) claimNames(set *appsv1.StatefulSet) []string {
	var all []string
	for _, member := range c.membersWithClaims() {
		all = append(all, etcdcomponent.Claim(member))
		if set != nil && etcdcomponent.SnapshotVolumes(set) != nil {
			all = append(all, etcdcomponent.SnapshotsClaim(member))
		}
	}
	return all
}

// addBelongings adds to a member its pod, its volume, its host node, and the record of its last replacement.
func (c *cluster) addBelongings(ctx context.Context, member *recovery.Member, found *belongings, hosts *hostnodes.Hosts) error {
	if service := found.services[member.Name]; service != nil && service.Annotations[recovery.Annotation] != "" {
		if err := json.Unmarshal([]byte(service.Annotations[recovery.Annotation]), &member.Last); err != nil {
			return fmt.Errorf("read the annotation %s of Service %s: %w: remove it", recovery.Annotation, client.ObjectKeyFromObject(service), err)
		}
	}
	claim := found.claims[member.Name]
	var tiedTo recovery.Host
	if claim != nil {
		var err error
		if member.Claim, tiedTo, err = c.volumesOf(ctx, member.Name, claim, found.snapshots[member.Name], hosts); err != nil {
			return err
		}
	}
	i := hostpods.Index(found.pods, member.Name)
	if i < 0 {
		member.Host = tiedTo
		return nil
	}
	pod := &found.pods[i]
	member.Pod, member.Data = podFacts(pod, found.set, claim != nil), seen.Data(pod)
	member.Healthy = member.Healthy && !member.Pod.Stopping
	var err error
	if member.Pod.Early, err = c.cameEarly(ctx, member, pod); err != nil {
		return err
	}
	if member.Host = tiedTo; pod.Spec.NodeName == "" {
		return nil
	}
	member.Host, err = hosts.Named(ctx, pod.Spec.NodeName)
	return err
}

// volumesOf is the claim of a member's data, and the host node that its volumes are tied to. A pod does not start without its volume for
// snapshots either, if it has one, so that the loss of that is the loss of the member's volumes.
func (c *cluster) volumesOf(ctx context.Context, member string, data, snapshots *corev1.PersistentVolumeClaim, hosts *hostnodes.Hosts) (recovery.Claim, recovery.Host, error) {
	is, tiedTo, err := c.claim(ctx, data, hosts)
	if err != nil || snapshots == nil {
		return is, tiedTo, err
	}
	own, ownTiedTo, err := c.claim(ctx, snapshots, hosts)
	is.Lost = is.Lost || own.Lost
	if own.Tied && !is.Tied {
		is.Tied, tiedTo = true, ownTiedTo
	}
	elsewhere := slices.ContainsFunc(c.SnapshotKeepers, func(keeper string) bool { return keeper != member })
	if unreachable := own.Lost || own.Tied && ownTiedTo.Gone; !unreachable && !own.Stopping && !elsewhere {
		is.LastSnapshots, is.SnapshotsKnown, is.SnapshotsTied = snapshots.Name, len(c.SnapshotKeepers) > 0, own.Tied
	}
	return is, tiedTo, err
}

// isFormer reports whether a volume claim was there before a restore in place.
func isFormer(claim client.Object) bool {
	return claim.GetAnnotations()[recovery.FormerAnnotation] != ""
}

// claim is a volume claim, and the host node that its volume is tied to; none when several can use it, or when it has no
// volume yet.
func (c *cluster) claim(ctx context.Context, claim *corev1.PersistentVolumeClaim, hosts *hostnodes.Hosts) (recovery.Claim, recovery.Host, error) {
	is := recovery.Claim{UID: string(claim.UID), Stopping: claim.DeletionTimestamp != nil, Lost: claim.Status.Phase == corev1.ClaimLost, Former: isFormer(claim)}
	if claim.Spec.VolumeName == "" || is.Lost {
		return is, recovery.Host{}, nil
	}
	volume := &corev1.PersistentVolume{}
	switch err := c.Host.Live.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume); {
	case apierrors.IsNotFound(err):
		is.Lost = claim.Status.Phase == corev1.ClaimBound
		return is, recovery.Host{}, nil
	case err != nil:
		return is, recovery.Host{}, fmt.Errorf("read PersistentVolume %s of claim %s: %w", claim.Spec.VolumeName, client.ObjectKeyFromObject(claim), err)
	}
	var host recovery.Host
	var err error
	is.Tied, host, err = hosts.Tied(ctx, volume, claim)
	return is, host, err
}

// podFacts is what a pod says of itself.
func podFacts(pod *corev1.Pod, set *appsv1.StatefulSet, claimed bool) recovery.Pod {
	is := recovery.Pod{UID: string(pod.UID), Stopping: pod.DeletionTimestamp != nil, FailedStarts: seen.FailedStarts(pod)}
	is.Outdated = set == nil || set.Status.ObservedGeneration != set.Generation || pod.Labels[appsv1.ControllerRevisionHashLabelKey] != set.Status.UpdateRevision
	switch scheduled := hostpods.Condition(pod, corev1.PodScheduled); {
	case pod.Spec.NodeName != "" && (claimed || pod.Status.Phase != corev1.PodPending || !mountsClaim(pod)):
	case pod.Spec.NodeName == "" && scheduled != nil:
		is.PendingSince = scheduled.LastTransitionTime.Time
	default:
		is.PendingSince = pod.CreationTimestamp.Time
	}
	return is
}

func mountsClaim(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool { return volume.PersistentVolumeClaim != nil })
}
