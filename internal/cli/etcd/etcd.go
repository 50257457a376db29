// Package etcd has the commands of kok for snapshots of a tenant's data etcd: it lists them, takes one, prepares a new
// cluster that begins with one, and has a cluster that exists begin with one again.
package etcd

import (
	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/access"
)

// Conditions of a KOKEtcdSnapshot.
const (
	storedCondition   = "Stored"
	verifiedCondition = "Verified"
)

// New is the command etcd with all of its commands.
func New(cluster *access.Cluster) *cobra.Command {
	command := &cobra.Command{
		Use:   "etcd",
		Short: "List snapshots of a cluster's etcd, take one, and restore one",
		Long: `List snapshots of a cluster's etcd, take one, and restore one into a new cluster or in place.

Snapshots are taken by spec.etcd.backup of a KOKControlPlane, and each is a KOKEtcdSnapshot object. docs/restore-etcd.md has the
steps of a restore.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(newList(cluster), newSnapshot(cluster), newRestore(cluster), newRestoreInPlace(cluster))
	return command
}
