package controllers

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
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
)

// recoverEtcd finds out what status said of etcd clusters, when it says nothing: clusterctl move and backups leave
// status behind. Without it a running cluster would be taken for one that is yet to be bootstrapped, and a member that
// comes back without data would be let in. Configuration files and workloads tell it; etcd itself says the
// rest when it is observed.
func recoverEtcd(ctx context.Context, s *scope) error {
	for _, cluster := range etcdclusters.All {
		if !cluster.AsComponent().IsOf(&s.controlPlane.Spec) || etcdclusters.Status(s.controlPlane, cluster.Component).Name != "" {
			continue
		}
		found, err := s.findEtcd(ctx, cluster)
		if err != nil {
			return err
		}
		if found != nil {
			s.controlPlane.Status.Etcd = append(s.controlPlane.Status.Etcd, *found)
		}
	}
	return nil
}

// findEtcd is what the host cluster tells of an etcd cluster; nil for one that was not founded yet.
func (s *scope) findEtcd(ctx context.Context, cluster etcdcomponent.Cluster) (*controlplanev1.EtcdClusterStatus, error) {
	config, workload := &corev1.ConfigMap{}, &appsv1.StatefulSet{}
	for _, present := range []struct {
		name   string
		object client.Object
	}{{names.Config(s.key.Name, cluster.Component), config}, {names.Object(s.key.Name, cluster.Component), workload}} {
		key := client.ObjectKey{Namespace: s.key.Namespace, Name: present.name}
		// A cache that lacks them would let a member without data start a cluster anew.
		if err := s.host.Live.Get(ctx, key, present.object); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("look for etcd members of before: %w", err)
		}
	}
	seeded, err := s.mayBeSeeded(ctx, cluster, workload)
	if err != nil || seeded {
		return nil, err // The files of a seeded one say from the beginning that it was founded, and nobody has seen it yet.
	}
	return recoveredEtcd(cluster, s.key, etcdclusters.Founded(s.controlPlane, cluster.Component), config.Data, ptr.Deref(workload.Spec.Replicas, 0))
}

// mayBeSeeded reports whether the first member of an etcd cluster may still have to restore a snapshot: it is told which.
func (s *scope) mayBeSeeded(ctx context.Context, cluster etcdcomponent.Cluster, workload *appsv1.StatefulSet) (bool, error) {
	if cluster.Component != names.EtcdData || s.controlPlane.Spec.Etcd.Restore == nil || ptr.Deref(workload.Spec.Replicas, 0) > 1 {
		return false, nil
	}
	secret, key := &corev1.Secret{}, client.ObjectKey{Namespace: s.key.Namespace, Name: names.Backup(s.key.Name)}
	if err := s.host.Live.Get(ctx, key, secret); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("look whether etcd begins with a snapshot: %w", err)
	}
	return len(secret.Data[backup.SeedFile]) > 0, nil
}

// recoveredEtcd is what files and the number of pods tell of an etcd cluster; nil for one that was not bootstrapped, and where files
// are of another founding. There are as many pods as etcd lists members; when the StatefulSet is gone, files alone tell who they are.
func recoveredEtcd(cluster etcdcomponent.Cluster, key client.ObjectKey, founded string, files map[string]string, pods int32) (*controlplanev1.EtcdClusterStatus, error) {
	if pods == 0 {
		pods = int32(len(files)) //nolint:gosec // There are seven at most.
	}
	var members []controlplanev1.EtcdMemberStatus
	for ordinal := range pods {
		name := fmt.Sprintf("%s-%d", names.Object(key.Name, cluster.Component), ordinal)
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

// recoverVersions finds out what status said of versions, when it says nothing: an upgrade may be under way. Before a
// control plane has pods there is nothing to find.
func recoverVersions(s *scope) {
	if len(s.controlPlane.Status.Versions) == 0 {
		status.SetVersions(s.controlPlane, s.snapshot.Pods)
	}
}
