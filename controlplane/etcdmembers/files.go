package etcdmembers

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/apply"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// files are the configuration files of an etcd cluster as patches want them. They are in no stored
// rendering: while a patch is refused, what patches added before stays as it is, and nothing else is added.
func (m *Members) files(ctx context.Context, cluster etcdcomponent.Cluster) ([]client.Object, error) {
	component := cluster.AsComponent()
	membership, set := etcdclusters.Membership(m.ControlPlane, component.Name), &appsv1.StatefulSet{}
	if err := m.Host.Client.Get(ctx, client.ObjectKey{Namespace: m.Cluster.Namespace, Name: names.Object(m.Cluster.Name, component.Name)}, set); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("look how large volumes of %s are: %w", component.Name, err)
	}
	membership.Volume = etcdcomponent.VolumeSize(set)
	config, err := cluster.Config(m.Input, membership)
	if err != nil {
		return nil, err
	}
	if patched, err := component.Patched(m.Input, []client.Object{config}); err == nil && m.Refused == nil {
		return patched, nil
	}
	live := &corev1.ConfigMap{}
	key := client.ObjectKeyFromObject(config)
	if err := m.Host.Client.Get(ctx, key, live); err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read ConfigMap %s: %w", key, err)
	}
	isMember := func(file string) bool { return cluster.Ordinal(m.Input, strings.TrimSuffix(file, ".yaml")) >= 0 }
	config.Data = withMissing(config.Data, live.Data, isMember)
	config.BinaryData = withMissing(config.BinaryData, live.BinaryData, isMember)
	config.Labels = withMissing(config.Labels, live.Labels, nil)
	config.Annotations = withMissing(config.Annotations, live.Annotations, func(key string) bool { return key == apply.RenderingAnnotation })
	return []client.Object{config}, nil
}

// withMissing adds to wanted the entries of other that it lacks, except those for whose key but is true.
func withMissing[V any](wanted, other map[string]V, but func(key string) bool) map[string]V {
	for key, value := range other {
		if _, there := wanted[key]; there || but != nil && but(key) {
			continue
		}
		if wanted == nil {
			wanted = map[string]V{}
		}
		wanted[key] = value
	}
	return wanted
}
