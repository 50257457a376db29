// Package history has the command kok history: how the spec of a control plane changed, who changed it, and what became of it.
package history

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	specs "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/history"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/access"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/output"
)

const long = `Show the revisions of the spec of a control plane, the newest first. The manager keeps ten of them.

  REVISION   its number; the ControllerRevision is <cluster>-spec-<number>
  VERSION    the Kubernetes version
  PROVIDER   the version of the provider that recorded it
  CHANGED    the fields that differ from the revision before
  BY         the field managers that changed them; - where the API server does not tell, as for a field that was taken away
  AGE        how long ago

With --diff it shows what a revision changed, in spec and in what is rendered. "kok undo" takes changes back.

With --renderings it shows the stored renderings of each component, the newest first. The manager keeps ten of each.

  REVISION   its number; the ControllerRevision is <cluster>-<component>-<number>
  VERSION    the Kubernetes version
  PROVIDER   the version of the provider that rendered it; - for an older one, which did not tell
  SPEC       the revision of spec that it comes from
  AGE        how long ago
  IS         present: it is applied; as present: it has the same objects; can be taken again: it is of the same inputs, and
             spec.rollout.renderings can name it; of other inputs: spec, or what else it was made from, has changed since`

const example = `  # What was changed, when and by whom
  kok history blue

  # What revision 4 changed, down to the arguments of programs
  kok history blue --diff 4

  # Which renderings there are, and which can be taken again
  kok history blue --renderings

  # The same facts as data
  kok history blue --output json | jq '.[0].changed'`

// options are the flags of the command.
type options struct {
	format         output.Format
	hostKubeconfig string
	diff           int64
	renderings     bool
}

// New is the command history.
func New(cluster *access.Cluster) *cobra.Command {
	o := &options{}
	command := &cobra.Command{
		Use: "history CLUSTER", Short: "Show how the spec of a control plane changed, and who changed it", Long: long, Example: example,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cluster.CompleteOne(&clusterv1.ClusterList{}, true),
		RunE: func(command *cobra.Command, args []string) error {
			return cluster.Explain(o.run(command.Context(), cluster, args[0]))
		},
	}
	flags := command.Flags()
	flags.Int64Var(&o.diff, "diff", 0, "Number of the revision whose changes are shown.")
	flags.BoolVar(&o.renderings, "renderings", false, "Show the stored renderings of components.")
	flags.StringVar(&o.hostKubeconfig, "host-kubeconfig", "", "Kubeconfig file of the host cluster, for what is rendered there; only where it is another one.")
	o.format.AddTo(command)
	command.MarkFlagsMutuallyExclusive("diff", output.Flag)
	command.MarkFlagsMutuallyExclusive("diff", "renderings")
	return command
}

func (o *options) run(ctx context.Context, cluster *access.Cluster, name string) error {
	if err := o.format.Check(); err != nil {
		return err
	}
	reader, namespace, err := cluster.Connect()
	if err != nil {
		return err
	}
	of, err := access.ControlPlane(ctx, reader, client.ObjectKey{Namespace: namespace, Name: name})
	if err != nil {
		return err
	}
	if o.renderings {
		return o.printStored(ctx, cluster, reader, of)
	}
	revisions, err := Revisions(ctx, reader, of)
	if err != nil {
		return err
	}
	if o.diff != 0 {
		return o.printDiff(ctx, cluster, reader, of, revisions)
	}
	rows, err := rowsOf(revisions)
	if err != nil {
		return err
	}
	if o.format.IsData() {
		return o.format.Write(cluster.Out, rows)
	}
	if len(rows) == 0 {
		cluster.Say("KOKControlPlane %s has no history yet: the manager records spec when it reconciles it", client.ObjectKeyFromObject(of))
		return nil
	}
	return printRows(cluster.Out, rows, time.Now())
}

// Revisions are those of the spec of a control plane, from the oldest to the newest.
func Revisions(ctx context.Context, reader client.Reader, of *controlplanev1.KOKControlPlane) ([]appsv1.ControllerRevision, error) {
	all, err := specs.List(ctx, reader, tenantOf(of))
	if err != nil {
		return nil, err
	}
	return specs.Of(of, all), nil
}

// tenantOf is the Cluster of a control plane.
func tenantOf(of *controlplanev1.KOKControlPlane) client.ObjectKey {
	cluster := client.ObjectKey{Namespace: of.Namespace, Name: of.Labels[clusterv1.ClusterNameLabel]}
	if cluster.Name == "" {
		cluster.Name = of.Name
	}
	return cluster
}

// Numbers are those of revisions, for messages.
func Numbers(revisions []appsv1.ControllerRevision) string {
	if len(revisions) == 0 {
		return "there are none"
	}
	var all []string
	for i := range revisions {
		all = append(all, fmt.Sprint(revisions[i].Revision))
	}
	return "there are " + strings.Join(all, ", ")
}

// row is a revision as data.
type row struct {
	Revision int64       `json:"revision"`
	Name     string      `json:"name"`
	Version  string      `json:"version"`
	Provider string      `json:"provider"`
	Changed  []string    `json:"changed,omitempty"`
	By       []string    `json:"by,omitempty"`
	At       metav1.Time `json:"at"`
	// WayBack is true where a patch takes the change back.
	WayBack bool `json:"wayBack"`
}

// rowsOf are revisions as data, the newest first.
func rowsOf(revisions []appsv1.ControllerRevision) ([]row, error) {
	rows := []row{}
	for i := range slices.Backward(revisions) {
		r := &revisions[i]
		content, err := specs.Read(r)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{
			Revision: r.Revision, Name: r.Name, Version: content.Version, Provider: content.Provider,
			Changed: content.Changed, By: content.By, At: content.At, WayBack: len(content.WayBack) > 0,
		})
	}
	return rows, nil
}

// maxFields is how many changed fields a line has.
const maxFields = 3

func printRows(out io.Writer, rows []row, now time.Time) error {
	var table [][]string
	for _, r := range rows {
		changed := strings.Join(r.Changed[:min(maxFields, len(r.Changed))], ", ")
		if more := len(r.Changed) - maxFields; more > 0 {
			changed += fmt.Sprintf(" and %d more", more)
		}
		table = append(table, []string{
			strconv.FormatInt(r.Revision, 10), r.Version, r.Provider, changed, strings.Join(r.By, ", "), duration.HumanDuration(now.Sub(r.At.Time)),
		})
	}
	return output.Table(out, []string{"REVISION", "VERSION", "PROVIDER", "CHANGED", "BY", "AGE"}, table)
}
