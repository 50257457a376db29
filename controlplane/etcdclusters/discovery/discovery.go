// Package discovery finds what status said about etcd clusters before it was lost: clusterctl move and backups do not carry status. Without
// it the manager would take a running cluster for one that is yet to be bootstrapped, and would let in a member that comes back without
// data. Discovery reads configuration files and workloads. The operator learns the rest when it observes etcd.
package discovery

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
)

// Unknown finds the bootstrapped etcd clusters of a control plane that its status does not mention. It stops at the first error, and
// returns the error with the clusters that it found before.
func Unknown(ctx context.Context, live client.Reader, controlPlane *controlplanev1.KOKControlPlane, tenant client.ObjectKey) ([]controlplanev1.EtcdClusterStatus, error) {
	var all []controlplanev1.EtcdClusterStatus
	for _, cluster := range etcdcomponent.All {
		if !cluster.AsComponent().IsOf(&controlPlane.Spec) || etcdclusters.Status(controlPlane, cluster.Component).Name != "" {
			continue
		}
		found, err := Find(ctx, live, cluster, etcdclusters.Founded(controlPlane, cluster.Component), tenant)
		if err != nil {
			return all, err
		}
		if found != nil {
			all = append(all, *found)
		}
	}
	return all, nil
}

// Find reads from the host cluster what status should say about an etcd cluster. It returns nil for a cluster that is not bootstrapped yet.
// founded is the founding that it is of.
// live reads from the API server: a cache that is behind would let a member without data found the cluster anew.
func Find(ctx context.Context, live client.Reader, cluster etcdcomponent.Cluster, founded string, tenant client.ObjectKey) (*controlplanev1.EtcdClusterStatus, error) {
	config, workload := &corev1.ConfigMap{}, &appsv1.StatefulSet{}
	for _, present := range []struct {
		name   string
		object client.Object
	}{{names.Config(tenant.Name, cluster.Component), config}, {names.Object(tenant.Name, cluster.Component), workload}} {
		key := client.ObjectKey{Namespace: tenant.Namespace, Name: present.name}
		if err := live.Get(ctx, key, present.object); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("look for former etcd members: %w", err)
		}
	}
	seeded, err := mayBeSeeded(ctx, live, cluster, tenant, workload)
	if err != nil || seeded {
		return nil, err // The files of a seeded cluster say from the beginning that it is bootstrapped, but its first member may not have restored the snapshot yet.
	}
	return described(cluster, tenant, founded, config.Data, workload)
}

// mayBeSeeded reports whether the first member of an etcd cluster may still have to restore a snapshot. Then the Secret of its backup names
// the snapshot.
func mayBeSeeded(ctx context.Context, live client.Reader, cluster etcdcomponent.Cluster, tenant client.ObjectKey, workload *appsv1.StatefulSet) (bool, error) {
	if !cluster.Restorable() || ptr.Deref(workload.Spec.Replicas, 0) > 1 {
		return false, nil
	}
	secret, key := &corev1.Secret{}, client.ObjectKey{Namespace: tenant.Namespace, Name: names.Backup(tenant.Name)}
	if err := live.Get(ctx, key, secret); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("look whether etcd begins with a snapshot: %w", err)
	}
	return len(secret.Data[backup.SeedFile]) > 0, nil
}

// described makes the status of an etcd cluster from its files and the pods that its StatefulSet should have. It returns nil if the cluster
// was not bootstrapped, or if the files are of another founding. Etcd listed the members of these pods; if the StatefulSet is gone, only the
// files tell who the members are.
func described(cluster etcdcomponent.Cluster, tenant client.ObjectKey, founded string, files map[string]string, set *appsv1.StatefulSet) (*controlplanev1.EtcdClusterStatus, error) {
	first, end := workloads.Ordinals(set)
	if first == end {
		first, end = 0, int32(len(files)) //nolint:gosec // There are seven at most.
	}
	var members []controlplanev1.EtcdMemberStatus
	for ordinal := first; ordinal < end; ordinal++ {
		name := fmt.Sprintf("%s-%d", names.Object(tenant.Name, cluster.Component), ordinal)
		file, ok := files[name+".yaml"]
		if !ok {
			continue
		}
		read, err := etcdcomponent.Read(file)
		if err != nil {
			return nil, fmt.Errorf("the file of %s: %w", name, err)
		}
		if !read.Bootstrapped || !read.FoundedAs(founded) {
			return nil, nil
		}
		state := controlplanev1.EtcdMemberVoter
		if read.Joining() && slices.Contains(read.Listed, name) {
			state = controlplanev1.EtcdMemberJoining
		}
		members = append(members, controlplanev1.EtcdMemberStatus{Name: name, State: state})
	}
	if len(members) == 0 {
		return nil, nil
	}
	return &controlplanev1.EtcdClusterStatus{Name: etcdclusters.Name(cluster.Component), Bootstrapped: ptr.To(true), Members: members}, nil
}
