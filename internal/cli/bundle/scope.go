package bundle

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// scope is what a bundle is about.
type scope struct {
	// clusters have a Cluster object here, tenants are all whose control plane may run here.
	clusters, tenants map[client.ObjectKey]bool
	// chosen is true when the command line names clusters: what belongs to others is left out.
	chosen bool
	// tenantNamespaces are those of clusters and hosts, providerNamespaces those of managers.
	tenantNamespaces, providerNamespaces map[string]bool
}

// namespaces are all of the scope, in order.
func (s *scope) namespaces() []string {
	all := maps.Clone(s.tenantNamespaces)
	maps.Copy(all, s.providerNamespaces)
	return slices.Sorted(maps.Keys(all))
}

// has reports whether an object of a namespace belongs into the bundle by the Cluster that its labels name.
func (s *scope) has(object client.Object) bool {
	cluster := object.GetLabels()[clusterv1.ClusterNameLabel]
	if kind := object.GetObjectKind().GroupVersionKind(); kind.Group == clusterv1.GroupVersion.Group && kind.Kind == "Cluster" {
		cluster = object.GetName()
	}
	return !s.chosen || cluster == "" || s.tenants[client.ObjectKey{Namespace: object.GetNamespace(), Name: cluster}]
}

func (s *scope) sortedClusters() []client.ObjectKey {
	return slices.SortedFunc(maps.Keys(s.clusters), func(a, b client.ObjectKey) int { return cmp.Compare(a.String(), b.String()) })
}

// providerSystems are the namespaces of managers where these cannot be looked for in all namespaces.
var providerSystems = []string{"capi-system", "kok-control-plane-system", "kok-bootstrap-system", "kok-infrastructure-system"}

// find finds what is concerned. A cluster that is named must be there, as an object or by the pods of its control plane.
func (c *collector) find(ctx context.Context, clusterNames []string) (*scope, error) {
	namespace, given, err := c.cluster.Namespace()
	if err != nil {
		return nil, err
	}
	s := &scope{
		clusters: map[client.ObjectKey]bool{}, tenants: map[client.ObjectKey]bool{}, chosen: len(clusterNames) > 0,
		tenantNamespaces: map[string]bool{namespace: true}, providerNamespaces: map[string]bool{},
	}
	switch {
	case s.chosen:
		err = c.findNamed(ctx, s, namespace, clusterNames)
	case given:
		err = c.findAll(ctx, s, namespace)
	default:
		if err = c.findAll(ctx, s, metav1.NamespaceAll); apierrors.IsForbidden(err) {
			c.note("clusters of all namespaces", err)
			err = c.findAll(ctx, s, namespace)
		}
	}
	if err != nil {
		return nil, err
	}
	c.findProviders(ctx, s)
	return s, nil
}

func (c *collector) findNamed(ctx context.Context, s *scope, namespace string, clusterNames []string) error {
	for _, name := range clusterNames {
		key := client.ObjectKey{Namespace: namespace, Name: name}
		err := c.client.Get(ctx, key, &clusterv1.Cluster{})
		if err == nil {
			s.clusters[key] = true
		} else if !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
			return fmt.Errorf("read Cluster %s: %w", key, err)
		}
		pods := &corev1.PodList{}
		if err != nil {
			if err := c.client.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels(names.Labels(key)), client.Limit(1)); err != nil {
				return fmt.Errorf("list the pods of cluster %s: %w", key, err)
			}
			if len(pods.Items) == 0 {
				return fmt.Errorf("namespace %s has neither a Cluster %s nor pods of its control plane; kubectl get clusters --all-namespaces lists those that there are, --namespace chooses another namespace", namespace, name)
			}
		}
		s.tenants[key] = true
	}
	return nil
}

// findAll takes every cluster of a namespace, or of all; hosts may be there before a cluster is.
func (c *collector) findAll(ctx context.Context, s *scope, namespace string) error {
	clusters, hosts, pods := &clusterv1.ClusterList{}, &infrav1.IDCHostList{}, &corev1.PodList{}
	if err := c.client.List(ctx, clusters, client.InNamespace(namespace)); err != nil && !meta.IsNoMatchError(err) {
		return fmt.Errorf("list Clusters: %w", err)
	}
	if err := c.client.List(ctx, hosts, client.InNamespace(namespace)); err != nil && !meta.IsNoMatchError(err) {
		return fmt.Errorf("list IDCHosts: %w", err)
	}
	if err := c.client.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{names.ManagedByLabel: names.ManagedBy}); err != nil {
		return fmt.Errorf("list the pods of control planes: %w", err)
	}
	for _, cluster := range clusters.Items {
		key := client.ObjectKeyFromObject(&cluster)
		s.clusters[key], s.tenants[key], s.tenantNamespaces[key.Namespace] = true, true, true
	}
	for _, host := range hosts.Items {
		s.tenantNamespaces[host.Namespace] = true
	}
	for _, pod := range pods.Items {
		s.tenants[client.ObjectKey{Namespace: pod.Namespace, Name: pod.Labels[clusterv1.ClusterNameLabel]}] = true
		s.tenantNamespaces[pod.Namespace] = true
	}
	return nil
}

// findProviders finds the namespaces of managers by the label that Cluster API gives to all of a provider.
func (c *collector) findProviders(ctx context.Context, s *scope) {
	managers := &appsv1.DeploymentList{}
	if err := c.client.List(ctx, managers, client.HasLabels{clusterv1.ProviderNameLabel}); err != nil {
		c.note("Deployments of managers in all namespaces", err)
		for _, namespace := range providerSystems {
			s.providerNamespaces[namespace] = true
		}
		return
	}
	for i := range managers.Items {
		s.providerNamespaces[managers.Items[i].Namespace] = true
	}
	c.managers = managers.Items
}
