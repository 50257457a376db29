// Package bundle has the command kok support-bundle: one archive of what explains a failure, from the API alone and without
// secrets.
//
// scope decides which objects belong into the bundle. collector reads them from the API, redactor takes secrets out, and
// archive writes. What the collector cannot read it notes in errors.txt, and goes on.
package bundle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/access"
)

const long = `Collect what explains a failure into one .tar.gz, from the API alone.

The archive has the objects of Cluster API and of the providers in the namespaces concerned, the conditions of all of them on
one page, the status of each cluster as "kok status" shows it, Events, Nodes, the pods of managers and of control planes with
the end of their logs, ConfigMaps, and versions. With names it has those clusters alone, without names every cluster that you
may read. A control plane in another host cluster is collected there: run the command with that cluster's kubeconfig, too.

No value of a Secret is in it: of Secrets there are names, types, keys and lengths. What Secrets of these namespaces hold
is taken out of all other texts, and so are bootstrap data, tokens, private keys and kubeconfigs. Names, addresses and messages stay: look through it
before you give it away. errors.txt lists what could not be read, and the command tells it at its end.

It ends with 0 once the archive is written and has everything, with 1 when it is written and lacks something, and with 2 otherwise.`

const example = `  # Of one cluster
  kok support-bundle blue --namespace team

  # Of everything, into a file of your choice
  kok support-bundle --output kok.tar.gz`

// options are the flags.
type options struct {
	output             string
	logLines, logBytes int64
}

// New is the command support-bundle.
func New(cluster *access.Cluster) *cobra.Command {
	o := &options{}
	command := &cobra.Command{
		Use: "support-bundle [CLUSTER...]", Short: "Collect what explains a failure into one archive, without secrets",
		Long: long, Example: example, ValidArgsFunction: cluster.Complete(&clusterv1.ClusterList{}, true),
		RunE: func(command *cobra.Command, args []string) error {
			return cluster.Explain(o.run(command.Context(), cluster, args))
		},
	}
	command.Flags().StringVar(&o.output, "output", "", "File to write, which must not be there; by default kok-support-<time>.tar.gz.")
	command.Flags().Int64Var(&o.logLines, "log-lines", 2000, "Lines at the end of each container's log.")
	command.Flags().Int64Var(&o.logBytes, "log-bytes", 1<<20, "Bytes at the end of each container's log, at most.")
	return command
}

func (o *options) run(ctx context.Context, cluster *access.Cluster, names []string) error {
	if o.logLines < 0 || o.logBytes < 0 {
		return errors.New("--log-lines and --log-bytes must not be negative; 0 leaves logs out")
	}
	now := time.Now().UTC()
	if o.output == "" {
		o.output = "kok-support-" + now.Format("20060102-150405") + ".tar.gz"
	}
	c, err := newCollector(cluster, *o)
	if err != nil {
		return err
	}
	scope, err := c.find(ctx, names)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(o.output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s is there already, and nothing is overwritten; choose another file by --output", o.output)
	}
	if err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	folder := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(o.output), ".gz"), ".tar")
	c.archive = newArchive(file, strings.TrimSuffix(folder, ".tgz"), now)
	c.collect(ctx, scope)
	if err := errors.Join(c.archive.close(), file.Close(), ctx.Err()); err != nil {
		// An incomplete archive looks like a complete one.
		return errors.Join(fmt.Errorf("write the archive %s: %w", o.output, err), os.Remove(o.output))
	}
	if _, err := fmt.Fprintln(cluster.Out, o.output); err != nil {
		return err
	}
	return c.lacks()
}
