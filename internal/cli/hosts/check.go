package hosts

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/access"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/exit"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/output"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/terminal"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/verdict"
)

const checkLong = `Show the state of hosts: one line each, and for those that cannot be used why, and the way out.

  STATE    free, claimed by a machine, or unusable; unknown is what the controller did not look at yet
  REASON   of the condition that decides; docs/reference/conditions.md explains each
  SINCE    how long it has been so. The controller probes a well host every minute and any other every 15 seconds, and writes
           only what changes

Without names it shows every host of the namespace and ends with 0. With names it ends with 1 when one of them is unusable or
not known yet.`

const checkExample = `  # All hosts of the namespace
  kok hosts check

  # Wait for a host in a script
  until kok hosts check rack-1-host-7; do sleep 15; done`

func newCheck(cluster *access.Cluster) *cobra.Command {
	return &cobra.Command{
		Use: "check [NAME...]", Short: "Show which hosts can be used, and what keeps the others",
		Long: checkLong, Example: checkExample,
		ValidArgsFunction: cluster.Complete(&infrav1.IDCHostList{}, true),
		RunE: func(command *cobra.Command, args []string) error {
			return cluster.Explain(check(command.Context(), cluster, args))
		},
	}
}

func check(ctx context.Context, cluster *access.Cluster, names []string) error {
	namespace, _, err := cluster.Namespace()
	if err != nil {
		return err
	}
	reader, err := cluster.Client()
	if err != nil {
		return err
	}
	hosts, err := read(ctx, cluster, reader, names)
	if err != nil {
		return err
	}
	if len(hosts) == 0 {
		cluster.Say("Namespace %s has no IDCHosts; %s hosts add adds one", namespace, cluster.Program)
		return nil
	}
	unusable := 0
	verdicts := make([]verdict.Verdict, 0, len(hosts))
	for i := range hosts {
		v := verdict.Of(&hosts[i])
		if !v.Usable() {
			unusable++
		}
		verdicts = append(verdicts, v)
	}
	if err := printVerdicts(cluster.Out, verdicts, time.Now()); err != nil {
		return err
	}
	if unusable > 0 && len(names) > 0 {
		return &exit.BadNews{Message: fmt.Sprintf("%d of %d hosts cannot be used", unusable, len(hosts))}
	}
	return nil
}

// read are the named hosts in the order of the names, or all of the namespace.
func read(ctx context.Context, cluster *access.Cluster, reader client.Reader, names []string) ([]infrav1.IDCHost, error) {
	namespace, _, err := cluster.Namespace()
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		list := &infrav1.IDCHostList{}
		if err := reader.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("list the IDCHosts of namespace %s: %w", namespace, err)
		}
		slices.SortFunc(list.Items, func(a, b infrav1.IDCHost) int { return strings.Compare(a.Name, b.Name) })
		return list.Items, nil
	}
	hosts := make([]infrav1.IDCHost, len(names))
	for i, name := range names {
		err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &hosts[i])
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("namespace %s has no IDCHost %s; %s hosts check without names shows those that there are, --namespace another namespace's", namespace, name, cluster.Program)
		}
		if err != nil {
			return nil, fmt.Errorf("read IDCHost %s/%s: %w", namespace, name, err)
		}
	}
	return hosts, nil
}

func printVerdicts(out io.Writer, verdicts []verdict.Verdict, now time.Time) error {
	var table [][]string
	for _, v := range verdicts {
		since := ""
		if !v.Since.IsZero() {
			since = duration.HumanDuration(now.Sub(v.Since))
		}
		table = append(table, []string{v.Name, v.Address, v.State, v.Reason, v.Machine, since})
	}
	if err := output.Table(out, []string{"NAME", "ADDRESS", "STATE", "REASON", "MACHINE", "SINCE"}, table); err != nil {
		return err
	}
	for _, v := range verdicts {
		if v.Usable() {
			continue
		}
		text := fmt.Sprintf("\n%s: %s\n", v.Name, v.Message)
		if v.WayOut != "" {
			text += fmt.Sprintf("  %s\n", v.WayOut)
		}
		if _, err := io.WriteString(out, terminal.Plain(text)); err != nil {
			return err
		}
	}
	return nil
}
