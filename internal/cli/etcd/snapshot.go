package etcd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/access"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/exit"
)

const snapshotLong = `Take a snapshot of a cluster's data etcd now, wait until it is verified, and print the name of its KOKEtcdSnapshot.

The control plane needs spec.etcd.backup, which says where the snapshot goes. What keeps it from being taken or verified is told
meanwhile. It goes on when the wait ends: "kok etcd list" shows what came of it.`

const snapshotExample = `  # Before a risky change
  kok etcd snapshot blue`

// defaultTimeout is how long a snapshot and its trial may take.
const defaultTimeout = 10 * time.Minute

// pollInterval is how often the snapshot is read while the command waits.
const pollInterval = time.Second

func newSnapshot(cluster *access.Cluster) *cobra.Command {
	timeout := time.Duration(0)
	command := &cobra.Command{
		Use: "snapshot CLUSTER", Short: "Take a snapshot of a cluster's data etcd, and wait until it is verified",
		Long: snapshotLong, Example: snapshotExample, Args: cobra.ExactArgs(1),
		ValidArgsFunction: cluster.CompleteOne(&clusterv1.ClusterList{}, true),
		RunE: func(command *cobra.Command, args []string) error {
			return cluster.Explain(take(command.Context(), cluster, args[0], timeout))
		},
	}
	command.Flags().DurationVar(&timeout, "timeout", defaultTimeout, "How long to wait until the snapshot is verified; 0 does not wait.")
	return command
}

func take(ctx context.Context, cluster *access.Cluster, name string, timeout time.Duration) error {
	c, namespace, err := cluster.Connect()
	if err != nil {
		return err
	}
	of, err := access.ControlPlane(ctx, c, client.ObjectKey{Namespace: namespace, Name: name})
	if err != nil {
		return err
	}
	if of.Spec.Etcd.Backup == nil {
		return fmt.Errorf("KOKControlPlane %s has no spec.etcd.backup, which says where snapshots go: set it first", client.ObjectKeyFromObject(of)) //nolint:staticcheck // A kind.
	}
	snapshot := &controlplanev1.KOKEtcdSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: of.Name + "-"},
		Spec:       controlplanev1.KOKEtcdSnapshotSpec{ControlPlaneName: of.Name},
	}
	if err := c.Create(ctx, snapshot); err != nil {
		return fmt.Errorf("create a KOKEtcdSnapshot of KOKControlPlane %s: %w", client.ObjectKeyFromObject(of), err)
	}
	cluster.Say("KOKEtcdSnapshot %s is created", client.ObjectKeyFromObject(snapshot))
	if timeout > 0 {
		if err := waitUntilVerified(ctx, cluster, c, snapshot, timeout); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(cluster.Out, snapshot.Name)
	return err
}

// waitUntilVerified reads a snapshot until it is verified, or refused for good.
func waitUntilVerified(ctx context.Context, cluster *access.Cluster, reader client.Reader, snapshot *controlplanev1.KOKEtcdSnapshot, timeout time.Duration) error {
	key, told := client.ObjectKeyFromObject(snapshot), ""
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := wait.PollUntilContextCancel(bounded, pollInterval, true, func(context.Context) (bool, error) {
		// The end of the wait does not cut off a request. A request that fails is tried again until then.
		err := reader.Get(ctx, key, snapshot)
		if apierrors.IsNotFound(err) || ctx.Err() != nil {
			return false, err
		}
		left, refused := waitsFor(snapshot)
		if err != nil {
			left, refused = cluster.Explain(fmt.Errorf("read KOKEtcdSnapshot %s: %w", key, err)).Error(), false
		}
		if refused {
			return false, &exit.BadNews{Message: fmt.Sprintf("KOKEtcdSnapshot %s is refused: %s", key, left)}
		}
		if left != "" && left != told {
			cluster.Say("Waiting: %s", left)
			told = left
		}
		return left == "", nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("KOKEtcdSnapshot %s goes on; %s etcd list %s shows what came of it: %w", key, cluster.Program, snapshot.Spec.ControlPlaneName, ctx.Err()) //nolint:staticcheck // A kind.
	case bounded.Err() != nil:
		return &exit.BadNews{Message: fmt.Sprintf("KOKEtcdSnapshot %s is not verified after %s: %s", key, timeout, told)}
	default:
		return err
	}
}

// refusals are reasons that do not pass.
var refusals = []archive.Reason{archive.Truncated, archive.Tampered, archive.Foreign, archive.TooNew, archive.KeyMissing, archive.HashDiffers}

// waitsFor is what a snapshot waits for; empty once it is verified. refused is true where that does not pass.
func waitsFor(snapshot *controlplanev1.KOKEtcdSnapshot) (left string, refused bool) {
	if meta.IsStatusConditionTrue(snapshot.Status.Conditions, verifiedCondition) {
		return "", false
	}
	if bad := problemOf(snapshot); bad != nil {
		return fmt.Sprintf("%s: %s: %s", bad.Type, bad.Reason, bad.Message), slices.Contains(refusals, archive.Reason(bad.Reason))
	}
	for _, name := range []string{storedCondition, verifiedCondition} {
		if found := meta.FindStatusCondition(snapshot.Status.Conditions, name); found != nil && found.Status == metav1.ConditionUnknown {
			return strings.TrimSuffix(fmt.Sprintf("%s is not known: %s: %s", name, found.Reason, found.Message), ": "), false
		}
	}
	if meta.IsStatusConditionTrue(snapshot.Status.Conditions, storedCondition) {
		return "it is stored, and restored as a trial now", false
	}
	return "the controller and a member of etcd take it", false
}
