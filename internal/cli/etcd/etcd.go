// Package etcd has the commands of kok for snapshots of a tenant's data etcd: it lists them, takes one, prepares a new
// cluster that begins with one, and has a cluster that exists begin with one again.
package etcd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/access"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/terminal"
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

// say tells a person how far a command is, on standard error. Standard output is for results, which programs may read.
func say(cluster *access.Cluster, format string, args ...any) {
	_, _ = fmt.Fprintln(cluster.ErrOut, terminal.Plain(fmt.Sprintf(format, args...)))
}

// connect is a client, and the namespace that the command line names.
func connect(cluster *access.Cluster) (client.Client, string, error) {
	namespace, _, err := cluster.Namespace()
	if err != nil {
		return nil, "", err
	}
	c, err := cluster.Client()
	return c, namespace, err
}

const kokControlPlane = "KOKControlPlane"

// controlPlaneName is the name of the KOKControlPlane that a person means by a name: that of a Cluster of this name, or the one
// of the name itself, which need not be there.
func controlPlaneName(ctx context.Context, reader client.Reader, key client.ObjectKey) (string, error) {
	cluster := &clusterv1.Cluster{}
	err := reader.Get(ctx, key, cluster)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("read Cluster %s: %w", key, err)
	}
	if ref := cluster.Spec.ControlPlaneRef; err == nil && ref.Kind == kokControlPlane && ref.Name != "" {
		return ref.Name, nil
	}
	return key.Name, nil
}

// controlPlane is the KOKControlPlane that a person means by a name.
func controlPlane(ctx context.Context, reader client.Reader, key client.ObjectKey) (*controlplanev1.KOKControlPlane, error) {
	name, err := controlPlaneName(ctx, reader, key)
	if err != nil {
		return nil, err
	}
	found := &controlplanev1.KOKControlPlane{}
	at := client.ObjectKey{Namespace: key.Namespace, Name: name}
	switch err := reader.Get(ctx, at, found); {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("there is no KOKControlPlane %s; name a Cluster or its KOKControlPlane, and choose its --namespace", at)
	case err != nil:
		return nil, fmt.Errorf("read KOKControlPlane %s: %w", at, err)
	}
	return found, nil
}
