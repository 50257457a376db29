// Package status has the command kok status: what of a cluster is up, what waits, and what it waits
// for.
//
// gather reads the objects, of makes a Report of them and decides everything, and print writes it for people.
package status

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/access"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/exit"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/output"
)

const long = `Show on one screen what of a cluster is up, what waits, and for whom.

It reads the status of objects in the management cluster: of the Cluster and its control plane the conditions that are not as
they should be, components and members of etcd, MachineDeployments, the Machines that are not up with what they wait for, and
the hosts of the namespace that cannot be used. It reads nothing in the tenant.

It ends with 0 when the Cluster and its control plane are available, even while something waits, with 1 when one of them is
not, and with 2 when the command failed.`

const example = `  # One screen
  kok status blue

  # The same facts as data
  kok status blue --output json | jq '.machines.notUp'`

// New is the command status.
func New(cluster *access.Cluster) *cobra.Command {
	var format output.Format
	command := &cobra.Command{
		Use: "status CLUSTER", Short: "Show what of a cluster is up, what waits, and for whom", Long: long, Example: example,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cluster.CompleteOne(&clusterv1.ClusterList{}, true),
		RunE: func(command *cobra.Command, args []string) error {
			return cluster.Explain(run(command.Context(), cluster, args[0], format))
		},
	}
	format.AddTo(command)
	return command
}

func run(ctx context.Context, cluster *access.Cluster, name string, format output.Format) error {
	if err := format.Check(); err != nil {
		return err
	}
	namespace, _, err := cluster.Namespace()
	if err != nil {
		return err
	}
	reader, err := cluster.Client()
	if err != nil {
		return err
	}
	report, err := Of(ctx, reader, client.ObjectKey{Namespace: namespace, Name: name})
	if err != nil {
		return err
	}
	if err := report.write(cluster.Out, format); err != nil {
		return err
	}
	if !report.Available {
		return &exit.BadNews{}
	}
	return nil
}

func (r *Report) write(out io.Writer, format output.Format) error {
	if format.IsData() {
		return format.Write(out, r)
	}
	return r.Print(out, time.Now())
}
