package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/access"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/exit"
)

const inPlaceLong = `Restore an etcd of an existing cluster in place: it begins as a new etcd cluster. Wait until the control plane works again.

The data etcd begins with a snapshot, by the name of its KOKEtcdSnapshot ("kok etcd list" shows them), or with the data of one member that is left
(--survivor). What was written after the snapshot, or what only other members had, is lost. The API servers, the controller manager and the
scheduler stop until etcd is back. Addresses, certificates, workers and their pods stay.

The etcd with the events begins empty (--events). Events are lost, and nothing else; API servers, workers and pods go on. The wait ends when
a majority of its members works.

A request that cannot be met changes nothing: the reason is told. The restore goes on when the wait ends.

  --given-up MEMBER   a member that never runs again with its data, for its host node is gone for good. Otherwise the restore
                      waits for host nodes that are not heard from: the former etcd may still run there`

const inPlaceExample = `  # Somebody deleted what nobody should have
  kok etcd restore-in-place blue blue-control-plane-20260304t050000z

  # Two of three members have lost their data
  kok etcd restore-in-place blue --survivor blue-etcd-data-2

  # Two of three members with the events have lost theirs
  kok etcd restore-in-place blue --events`

// inPlaceTimeout is how long a restore in place may take. A large snapshot is fetched, and members join one after the other.
const inPlaceTimeout = 30 * time.Minute

// Flags that messages name.
const (
	flagSurvivor = "survivor"
	flagEvents   = "events"
	flagGivenUp  = "given-up"
)

func newRestoreInPlace(cluster *access.Cluster) *cobra.Command {
	r := &inPlaceRestorer{cluster: cluster}
	command := &cobra.Command{
		Use: "restore-in-place CLUSTER [SNAPSHOT]", Short: "Restore an etcd of an existing cluster in place, from a snapshot, from one member, or, for events, empty",
		Long: inPlaceLong, Example: inPlaceExample, Args: cobra.RangeArgs(1, 2),
		ValidArgsFunction: cluster.CompleteOne(&clusterv1.ClusterList{}, true),
		RunE: func(command *cobra.Command, args []string) error {
			return cluster.Explain(r.run(command.Context(), args[0], args[1:]))
		},
	}
	flags := command.Flags()
	flags.StringVar(&r.asks.Survivor, flagSurvivor, "", "Member whose data are left, as blue-etcd-data-2.")
	flags.BoolVar(&r.events, flagEvents, false, "Found the etcd with the events anew, empty.")
	flags.StringSliceVar(&r.givenUp, flagGivenUp, nil, "Member that never runs again with its data; may be given several times.")
	command.MarkFlagsMutuallyExclusive(flagEvents, flagGivenUp) // The etcd with the events begins empty: it waits for no member's data.
	flags.BoolVar(&r.yes, access.FlagYes, false, "Do not ask.")
	flags.DurationVar(&r.timeout, "timeout", inPlaceTimeout, "How long to wait until the control plane works again; 0 does not wait.")
	return command
}

// inPlaceRestorer is one run of the command.
type inPlaceRestorer struct {
	cluster *access.Cluster
	asks    controlplanev1.EtcdRestoreSpec
	// events is true for the etcd with the events.
	events  bool
	givenUp []string
	yes     bool
	timeout time.Duration

	client client.Client
	// name is what the person calls the cluster.
	name string
	// replaces is true where another restore is under way: the control plane does not go on as it was when this one is refused.
	replaces bool
}

func (r *inPlaceRestorer) run(ctx context.Context, name string, snapshots []string) error {
	ways := len(snapshots)
	for _, given := range []bool{r.asks.Survivor != "", r.events} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return fmt.Errorf("name what etcd begins with, one of these: a KOKEtcdSnapshot, a member by --%s, or nothing by --%s", flagSurvivor, flagEvents)
	}
	c, namespace, err := r.cluster.Connect()
	if err != nil {
		return err
	}
	r.client, r.name = c, name
	of, err := access.ControlPlane(ctx, c, client.ObjectKey{Namespace: namespace, Name: name})
	if err != nil {
		return err
	}
	if r.events {
		return r.foundEvents(ctx, of)
	}
	loses := fmt.Sprintf("What only members other than %s had is lost", r.asks.Survivor)
	if len(snapshots) > 0 {
		if loses, err = r.choose(ctx, of, snapshots[0]); err != nil {
			return err
		}
	}
	if err := r.confirm(ctx, of, loses); err != nil {
		return err
	}
	if err := r.request(ctx, of); err != nil {
		return err
	}
	if r.timeout == 0 {
		return nil
	}
	err = r.waitUntilRestored(ctx, of)
	if refused := (&refusal{}); errors.As(err, &refused) {
		return r.withdraw(ctx, of, refused)
	}
	return err
}

// choose looks at a snapshot, and says what is lost.
func (r *inPlaceRestorer) choose(ctx context.Context, of *controlplanev1.KOKControlPlane, name string) (loses string, err error) {
	snapshot, key := &controlplanev1.KOKEtcdSnapshot{}, client.ObjectKey{Namespace: of.Namespace, Name: name}
	switch err := r.client.Get(ctx, key, snapshot); {
	case apierrors.IsNotFound(err):
		return "", fmt.Errorf("there is no KOKEtcdSnapshot %s: %s etcd list %s shows those of the cluster", key, r.cluster.Program, of.Name)
	case err != nil:
		return "", fmt.Errorf("read KOKEtcdSnapshot %s: %w", key, err)
	}
	if left, _ := waitsFor(snapshot); left != "" {
		return "", fmt.Errorf("KOKEtcdSnapshot %s cannot be restored: %s", key, left) //nolint:staticcheck // A kind.
	}
	r.asks.Snapshot = name
	taken := snapshot.Status.TakenAt
	if isInFuture(snapshot.Status.Slot, time.Now()) {
		return fmt.Sprintf("What was written after the snapshot is lost. It has all up to revision %d. Nobody knows when it was taken: %s",
			snapshot.Status.Revision, inFutureMessage), nil
	}
	return fmt.Sprintf("What was written after the snapshot is lost: it has all up to revision %d, and was taken %s ago, at %s",
		snapshot.Status.Revision, duration.HumanDuration(time.Since(taken.Time)), taken.UTC().Format(time.RFC3339)), nil
}

// confirm tells a person what will happen, and lets them agree.
func (r *inPlaceRestorer) confirm(ctx context.Context, of *controlplanev1.KOKControlPlane, loses string) error {
	r.cluster.Say("The data etcd of KOKControlPlane %s will be founded anew. %s.", client.ObjectKeyFromObject(of), loses)
	if members := memberNames(of); len(members) > 0 {
		r.cluster.Say("Members %s stop, put their data aside, and begin anew.", strings.Join(members, ", "))
	}
	r.cluster.Say("API servers, controller manager and scheduler stop until it is back; workers and their pods go on.")
	if len(r.givenUp) > 0 {
		r.cluster.Say("Given up: %s. They must never run again with the data that they have.", strings.Join(r.givenUp, ", "))
	}
	return r.cluster.Agree(ctx, r.yes)
}

// memberNames are the members that etcd listed last.
func memberNames(of *controlplanev1.KOKControlPlane) []string {
	var members []string
	for _, m := range etcdclusters.Status(of, names.EtcdData).Members {
		members = append(members, m.Name)
	}
	return members
}

// request writes what is asked for. Members that an earlier restore gave up may be back, so they are not given up again.
func (r *inPlaceRestorer) request(ctx context.Context, of *controlplanev1.KOKControlPlane) error {
	r.replaces = conditions.GetReason(of, conditionsv1.EtcdRecoveringCondition) == conditionsv1.RestoringReason
	r.asks.RequestedAt = requestedAt(of, time.Now())
	if err := editSpec(ctx, r.client, of, func(spec *controlplanev1.KOKControlPlaneSpec) {
		spec.Etcd.Restore, spec.Etcd.GivenUp = &r.asks, r.givenUp
	}); err != nil {
		return fmt.Errorf("ask for the restore in KOKControlPlane %s: %w", client.ObjectKeyFromObject(of), err)
	}
	r.cluster.Say("The restore is asked for: spec.etcd.restore.requestedAt is %s", r.asks.RequestedAt.UTC().Format(time.RFC3339))
	return nil
}

// requestedAt is the time of a new request. It is after those of all former ones, because the clock of this machine may be behind.
func requestedAt(of *controlplanev1.KOKControlPlane, now time.Time) metav1.Time {
	data := etcdclusters.Status(of, names.EtcdData)
	former := []time.Time{data.RestoredAt.Time}
	if data.Restoring != nil {
		former = append(former, data.Restoring.RequestedAt.Time)
	}
	if of.Spec.Etcd.Restore != nil {
		former = append(former, of.Spec.Etcd.Restore.RequestedAt.Time)
	}
	last := slices.MaxFunc(former, time.Time.Compare)
	return metav1.NewTime(slices.MaxFunc([]time.Time{now.Truncate(time.Second), last.Add(time.Second)}, time.Time.Compare))
}

// waitUntilRestored reads the control plane until it works again, or says that the restore cannot begin.
func (r *inPlaceRestorer) waitUntilRestored(ctx context.Context, of *controlplanev1.KOKControlPlane) error {
	key := client.ObjectKeyFromObject(of)
	told, err := r.watch(ctx, of, func() (string, error) {
		left, refused := restoreWaitsFor(of, r.asks.RequestedAt)
		if refused {
			return left, &refusal{left}
		}
		return left, nil
	})
	switch {
	case err == nil:
		r.cluster.Say("KOKControlPlane %s works again, with etcd cluster %s", key, etcdclusters.Status(of, names.EtcdData).ClusterID)
		r.sayWhoIsAway(of, names.EtcdData)
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("the restore of KOKControlPlane %s goes on; %s status %s shows how far it is: %w", key, r.cluster.Program, r.name, ctx.Err())
	case errors.Is(err, context.DeadlineExceeded):
		return &exit.BadNews{Message: fmt.Sprintf("KOKControlPlane %s does not work again after %s, and the restore goes on: %s", key, r.timeout, told)}
	default:
		return err
	}
}

// sayWhoIsAway tells of members that an etcd works without.
func (r *inPlaceRestorer) sayWhoIsAway(of *controlplanev1.KOKControlPlane, component string) {
	ready, all := membersReady(etcdclusters.Status(of, component))
	if message := recovers(of, component); message != "" {
		r.cluster.Say("Not all members are back: %s", message)
	} else if ready < all {
		r.cluster.Say("Not all members are back yet: %d of %d are ready; %s status %s shows the others", ready, all, r.cluster.Program, r.name)
	}
}

// recovers is what the condition EtcdRecovering says, if it tells of this etcd; empty if it does not. It is of both etcds.
func recovers(of *controlplanev1.KOKControlPlane, component string) string {
	if message := conditions.GetMessage(of, conditionsv1.EtcdRecoveringCondition); conditions.IsTrue(of, conditionsv1.EtcdRecoveringCondition) && strings.Contains(message, component) {
		return message
	}
	return ""
}

// watch reads the control plane until it waits for nothing, and tells a person what it waits for. It returns what it told last. It ends
// with an error when the control plane is gone, when waitsFor has one, or when the time is over.
func (r *inPlaceRestorer) watch(ctx context.Context, of *controlplanev1.KOKControlPlane, waitsFor func() (string, error)) (told string, err error) {
	key := client.ObjectKeyFromObject(of)
	bounded, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	err = wait.PollUntilContextCancel(bounded, pollInterval, true, func(context.Context) (bool, error) {
		// The end of the wait does not cut off a request. A request that fails is tried again until then.
		err := r.client.Get(ctx, key, of)
		if apierrors.IsNotFound(err) || ctx.Err() != nil {
			return false, err
		}
		left := ""
		if err != nil {
			left = r.cluster.Explain(fmt.Errorf("read KOKControlPlane %s: %w", key, err)).Error()
		} else if left, err = waitsFor(); err != nil {
			return false, err
		}
		if left != "" && left != told {
			r.cluster.Say("Waiting: %s", left)
			told = left
		}
		return left == "", nil
	})
	return told, err
}

// refusal is why a restore cannot begin.
type refusal struct{ reason string }

// Error is the reason.
func (r *refusal) Error() string { return r.reason }

// withdraw takes a request back that cannot be met now: nobody would expect it to begin by itself some day. While an earlier restore
// is under way only another request has it go on.
func (r *inPlaceRestorer) withdraw(ctx context.Context, of *controlplanev1.KOKControlPlane, why *refusal) error {
	key := client.ObjectKeyFromObject(of)
	if r.replaces {
		return &exit.BadNews{Message: fmt.Sprintf("the restore of KOKControlPlane %s cannot begin, and the one before it is not over; ask for one that can, for the control plane has stopped: %s", key, why)}
	}
	if restore := of.Spec.Etcd.Restore; restore != nil && restore.RequestedAt.Time.Equal(r.asks.RequestedAt.Time) {
		if err := editSpec(ctx, r.client, of, func(spec *controlplanev1.KOKControlPlaneSpec) {
			spec.Etcd.Restore, spec.Etcd.GivenUp = nil, nil
		}); err != nil {
			return fmt.Errorf("the restore cannot begin (%w); take it back from KOKControlPlane %s by removing spec.etcd.restore, for that failed: %w", why, key, err)
		}
	}
	return &exit.BadNews{Message: fmt.Sprintf("KOKControlPlane %s goes on as it was, and nothing is left of the request: %s", key, why)}
}

// refusedPrefix begins the message of a request that cannot be met.
const refusedPrefix = "spec.etcd.restore: "

// restoreWaitsFor is what a control plane waits for until a restore is over and it works; empty for nothing. refused is true where
// the restore cannot begin.
func restoreWaitsFor(of *controlplanev1.KOKControlPlane, requested metav1.Time) (left string, refused bool) {
	seen := func(name string) *metav1.Condition {
		if c := conditions.Get(of, name); c != nil && c.ObservedGeneration == of.Generation {
			return c
		}
		return &metav1.Condition{Status: metav1.ConditionUnknown}
	}
	data := etcdclusters.Status(of, names.EtcdData)
	over := data.RestoredAt.Time.Equal(requested.Time)
	lines := strings.Split(seen(conditionsv1.ReconciledCondition).Message, "\n")
	if i := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, refusedPrefix) }); i >= 0 && !over {
		return lines[i], true
	}
	// A member that is lost, or whose host node is off, may be away for long: the control plane works without it.
	switch recovering := seen(conditionsv1.EtcdRecoveringCondition); {
	case recovering.Status == metav1.ConditionTrue && (!over || recovering.Reason == conditionsv1.RestoringReason):
		return recovering.Message, false
	case !over:
		return "the controller has yet to begin", false
	}
	if available := seen(conditionsv1.AvailableCondition); available.Status != metav1.ConditionTrue {
		return strings.TrimSuffix("the control plane is not available yet: "+available.Message, ": "), false
	}
	return "", false
}
