// Package software is the command kok software: it describes, as a KOKSoftware, what upstreams publish.
package software

import (
	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/access"
)

// New returns the command.
func New(cluster *access.Cluster) *cobra.Command {
	command := &cobra.Command{
		Use: "software", Short: "Describe the software of machines",
		Long: "Describe the software of machines as KOKSoftware. kubectl get koksoftware lists what is described.",
		Args: cobra.NoArgs, RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(newAdd(cluster))
	return command
}
