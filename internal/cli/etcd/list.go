package etcd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/access"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/output"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/terminal"
)

const listLong = `Show the snapshots of a control plane's data etcd, the newest first: one line each, and for those that are refused why.
Those in the future come last: a host node with a wrong clock took them, so nobody may take one for the newest.

  NAME       of the KOKEtcdSnapshot
  SLOT       the snapshot's name in its store
  TAKEN      how long ago it was taken, by the clock of its host node
  VERIFIED   yes once an etcd started from it and had what its member had; only such a one is restored
  REVISION   of etcd, with all before it
  SIZE       in the store
  REASON     why it is refused; InFuture for one in the future
  MEMBERS    whose volumes have it, where members keep snapshots on volumes of their own

Name the Cluster or its KOKControlPlane. The snapshots of a control plane that is gone are shown by "kok etcd restore --dry-run".`

const listExample = `  # When the last one was taken, and whether it can be restored
  kok etcd list blue

  # The name of the newest verified one
  kok etcd list blue --output json | jq --raw-output 'map(select(.verified == "yes" and .reason == null))[0].name'`

func newList(cluster *access.Cluster) *cobra.Command {
	var format output.Format
	command := &cobra.Command{
		Use: "list CLUSTER|CONTROLPLANE", Short: "Show the snapshots of a control plane's data etcd",
		Long: listLong, Example: listExample, Args: cobra.ExactArgs(1),
		ValidArgsFunction: cluster.CompleteOne(&clusterv1.ClusterList{}, true),
		RunE: func(command *cobra.Command, args []string) error {
			return cluster.Explain(list(command.Context(), cluster, args[0], format))
		},
	}
	format.AddTo(command)
	return command
}

func list(ctx context.Context, cluster *access.Cluster, name string, format output.Format) error {
	if err := format.Check(); err != nil {
		return err
	}
	reader, namespace, err := cluster.Connect()
	if err != nil {
		return err
	}
	of, err := access.ControlPlaneName(ctx, reader, client.ObjectKey{Namespace: namespace, Name: name})
	if err != nil {
		return err
	}
	snapshots := &controlplanev1.KOKEtcdSnapshotList{}
	if err := reader.List(ctx, snapshots, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("list the KOKEtcdSnapshots of namespace %s: %w", namespace, err)
	}
	now := time.Now()
	rows := rowsOf(snapshots.Items, of, now)
	if format.IsData() {
		return format.Write(cluster.Out, rows)
	}
	if len(rows) == 0 {
		return explainNone(ctx, cluster, reader, client.ObjectKey{Namespace: namespace, Name: of})
	}
	return printRows(cluster.Out, rows, now)
}

// explainNone says why a control plane has no snapshots.
func explainNone(ctx context.Context, cluster *access.Cluster, reader client.Reader, key client.ObjectKey) error {
	found := &controlplanev1.KOKControlPlane{}
	switch err := reader.Get(ctx, key, found); {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no KOKControlPlane %s, and no snapshot of it; choose its --namespace, or look into its store: %s etcd restore --dry-run", key, cluster.Program)
	case err != nil:
		return fmt.Errorf("read KOKControlPlane %s: %w", key, err)
	case found.Spec.Etcd.Backup == nil:
		cluster.Say("KOKControlPlane %s has no snapshots, for it has no spec.etcd.backup", key)
	default:
		cluster.Say("KOKControlPlane %s has no snapshots yet; %s etcd snapshot %s takes one", key, cluster.Program, key.Name)
	}
	return nil
}

// What a row says of whether a snapshot is verified.
const (
	yes     = "yes"
	no      = "no"
	unknown = "unknown"
)

// row is a snapshot for people.
type row struct {
	Name          string      `json:"name"`
	Slot          string      `json:"slot,omitempty"`
	Taken         metav1.Time `json:"takenAt,omitzero"`
	Verified      string      `json:"verified"`
	VerifiedAt    metav1.Time `json:"verifiedAt,omitzero"`
	Revision      int64       `json:"revision,omitempty"`
	DatabaseBytes int64       `json:"databaseBytes,omitempty"`
	StoredBytes   int64       `json:"storedBytes,omitempty"`
	// Members are those whose volumes have the snapshot, where members keep snapshots on volumes of their own.
	Members []string `json:"members,omitempty"`
	// Reason and Message are of the condition that is False, Stored before Verified. Else they tell of a snapshot in the future.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`

	created time.Time
}

// rowsOf are the snapshots of a control plane, the newest first. One that is not taken yet comes before those, one in the future after them.
func rowsOf(snapshots []controlplanev1.KOKEtcdSnapshot, controlPlane string, now time.Time) []row {
	rows := []row{}
	for i := range snapshots {
		if s := &snapshots[i]; s.Spec.ControlPlaneName == controlPlane {
			rows = append(rows, rowOf(s))
		}
	}
	slices.SortFunc(rows, func(a, b row) int {
		if a.Slot == "" || b.Slot == "" {
			// A snapshot without a slot is not taken yet: it comes first.
			return cmp.Or(cmp.Compare(a.Slot, b.Slot), b.created.Compare(a.created), cmp.Compare(a.Name, b.Name))
		}
		return cmp.Or(cmp.Compare(b.Slot, a.Slot), cmp.Compare(a.Name, b.Name))
	})
	return futureLast(rows, now)
}

const (
	// inFutureReason is the reason in the row of a snapshot in the future.
	inFutureReason = "InFuture"
	// inFutureMessage says what is wrong with a snapshot in the future.
	inFutureMessage = "it is in the future: the clock of its host node was wrong, so its data are older than its name says"
)

// isInFuture reports whether a snapshot is of a host node with a wrong clock.
func isInFuture(slot string, now time.Time) bool {
	at, err := archive.ParseSlot(slot)
	return err == nil && archive.IsInFuture(at, now)
}

// futureLast puts snapshots in the future behind the others, and tells of them. A snapshot that is refused keeps its own reason.
func futureLast(rows []row, now time.Time) []row {
	others, future := []row{}, []row{}
	for _, r := range rows {
		if !isInFuture(r.Slot, now) {
			others = append(others, r)
			continue
		}
		if r.Reason == "" {
			r.Reason, r.Message = inFutureReason, inFutureMessage+"; restore it if no other one will do"
		}
		future = append(future, r)
	}
	return append(others, future...)
}

func rowOf(s *controlplanev1.KOKEtcdSnapshot) row {
	r := row{
		Name: s.Name, Slot: cmp.Or(s.Status.Slot, s.Spec.Slot), Taken: s.Status.TakenAt, Verified: unknown, VerifiedAt: s.Status.VerifiedAt,
		Revision: s.Status.Revision, DatabaseBytes: s.Status.DatabaseBytes, StoredBytes: s.Status.StoredBytes, Members: s.Status.Members,
		created: s.CreationTimestamp.Time,
	}
	if verified := meta.FindStatusCondition(s.Status.Conditions, verifiedCondition); verified != nil {
		switch verified.Status {
		case metav1.ConditionTrue:
			r.Verified = yes
		case metav1.ConditionFalse:
			r.Verified = no
		}
	}
	if bad := problemOf(s); bad != nil {
		r.Reason, r.Message = bad.Reason, bad.Message
	}
	return r
}

// problemOf is the condition of a snapshot that is False, Stored before Verified.
func problemOf(s *controlplanev1.KOKEtcdSnapshot) *metav1.Condition {
	for _, name := range []string{storedCondition, verifiedCondition} {
		if found := meta.FindStatusCondition(s.Status.Conditions, name); found != nil && found.Status == metav1.ConditionFalse {
			return found
		}
	}
	return nil
}

func printRows(out io.Writer, rows []row, now time.Time) error {
	columns := []string{"NAME", "SLOT", "TAKEN", "VERIFIED", "REVISION", "SIZE", "REASON"}
	kept := slices.ContainsFunc(rows, func(r row) bool { return len(r.Members) > 0 })
	if kept {
		columns = append(columns, "MEMBERS")
	}
	var table [][]string
	for _, r := range rows {
		var taken, revision, size string
		if !r.Taken.IsZero() {
			if taken = duration.HumanDuration(now.Sub(r.Taken.Time).Abs()); r.Taken.After(now) {
				taken = "in " + taken
			}
		}
		if r.Revision > 0 {
			revision = strconv.FormatInt(r.Revision, 10)
		}
		if r.StoredBytes > 0 {
			size = bytesOf(r.StoredBytes)
		}
		cells := []string{r.Name, r.Slot, taken, r.Verified, revision, size, r.Reason}
		if kept {
			cells = append(cells, strings.Join(r.Members, ","))
		}
		table = append(table, cells)
	}
	if err := output.Table(out, columns, table); err != nil {
		return err
	}
	for _, r := range rows {
		if r.Message == "" {
			continue
		}
		if _, err := io.WriteString(out, terminal.Plain(fmt.Sprintf("\n%s: %s\n", r.Name, r.Message))); err != nil {
			return err
		}
	}
	return nil
}

// bytesOf is a size for people.
func bytesOf(n int64) string {
	const step = 1024
	size, unit := float64(n), "B"
	for _, larger := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if size < step {
			break
		}
		size, unit = size/step, larger
	}
	if unit == "B" || size >= 100 {
		return fmt.Sprintf("%.0f%s", size, unit)
	}
	return fmt.Sprintf("%.1f%s", size, unit)
}
