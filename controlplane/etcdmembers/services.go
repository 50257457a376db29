package etcdmembers

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
)

// Beyond is, by component, how many members an etcd cluster has when those count that the spec asks for no more. A cluster without such members
// is not in it. Their addresses, certificates and files stay until nothing of them is left. Services are what tells of them: present ones, and those that were recorded.
func (m *Members) Beyond(ctx context.Context, recorded map[string]string, present map[string]*corev1.Service) (map[string]int32, error) {
	beyond := map[string]int32{}
	known := slices.AppendSeq(slices.Collect(maps.Keys(recorded)), maps.Keys(present))
	slices.Sort(known)
	known = slices.Compact(known)
	for _, cluster := range etcdcomponent.All {
		wanted, members := len(cluster.Wanted(m.Input)), 0
		extra := slices.DeleteFunc(slices.Clone(known), func(name string) bool { return cluster.Ordinal(m.Input, name) < wanted })
		for _, name := range extra {
			members = max(members, cluster.Ordinal(m.Input, name)+1)
		}
		if members == 0 {
			continue
		}
		left, err := m.leftOf(ctx, cluster, wanted, extra)
		if err != nil {
			return beyond, err
		}
		if left {
			beyond[cluster.Component] = int32(members) //nolint:gosec // A handful.
		}
	}
	return beyond, nil
}

// leftOf reports whether anything is left, or may be, of members beyond a number, of which the names are those that Services tell of.
func (m *Members) leftOf(ctx context.Context, cluster etcdcomponent.Cluster, wanted int, members []string) (bool, error) {
	listed := etcdclusters.Status(m.ControlPlane, cluster.Component).Members
	if len(listed) != wanted || etcdclusters.Voters(m.ControlPlane, cluster.Component) != int32(wanted) { //nolint:gosec // A handful.
		return true, nil
	}
	beyond := func(name string) bool { return cluster.Ordinal(m.Input, name) >= wanted }
	if slices.ContainsFunc(listed, func(m controlplanev1.EtcdMemberStatus) bool { return beyond(m.Name) }) {
		return true, nil
	}
	// A cache may not show what was just made, and addresses that are forgotten here do not come back.
	pods, err := hostpods.List(ctx, m.Host.Live, m.Cluster)
	if err != nil {
		return false, err
	}
	claims, err := operator.VolumeClaims(ctx, m.Host.Live, m.Cluster, cluster.Component, members)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(pods[cluster.Component], func(pod corev1.Pod) bool { return beyond(pod.Name) }) ||
		slices.ContainsFunc(claims, func(claim corev1.PersistentVolumeClaim) bool { return beyond(operator.MemberOf(&claim)) }), nil
}

// DeleteServices deletes the Services of members that were removed.
func (m *Members) DeleteServices(ctx context.Context, present map[string]*corev1.Service) error {
	for name, service := range present {
		for _, cluster := range etcdcomponent.All {
			if cluster.Ordinal(m.Input, name) < len(cluster.Members(m.Input)) {
				continue
			}
			if err := m.Host.Client.Delete(ctx, service, client.Preconditions{UID: &service.UID}); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("delete Service %s of a former etcd member: %w", client.ObjectKeyFromObject(service), err)
			}
			m.Host.Applier.Dismiss("Service", service)
		}
	}
	return nil
}
