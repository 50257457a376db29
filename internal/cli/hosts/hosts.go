// Package hosts has the commands of kok for the inventory of hosts: it adds a host, and says which hosts can be used.
package hosts

import (
	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/access"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/terminal"
)

// New is the command hosts with all of its commands.
func New(cluster *access.Cluster) *cobra.Command {
	command := &cobra.Command{
		Use:   "hosts",
		Short: "Add hosts of a data centre to the inventory, and see which can be used",
		Long: `Add hosts of a data centre to the inventory, and see which can be used.

A host is an IDCHost object in a namespace of the management cluster. Machines of clusters in the same namespace claim it.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(newAdd(cluster, func() bool { return terminal.IsTerminal(cluster.In) }), newCheck(cluster))
	return command
}
