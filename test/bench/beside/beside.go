// Package beside tells which tenants and workers are in the lab beside a benchmark, and waits after it until those tenants are
// as available as they were before.
package beside

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// Tenant is a tenant that is not the benchmark's.
type Tenant struct {
	// Key is the namespace and name of its Cluster.
	Key client.ObjectKey
	// Available is what its Cluster says, and Problem why not.
	Available bool
	Problem   string
	// Deleting tells that its Cluster is being deleted.
	Deleting bool
	// Workers counts its Machines.
	Workers int
}

// Others are what a benchmark found in the lab.
type Others struct {
	Tenants []Tenant
	// Hosts are the lab's hosts for workers, whether a tenant has them or not.
	Hosts []string

	reader client.Reader
}

// Find reads the host cluster. What is in the namespace own is the benchmark's.
func Find(ctx context.Context, reader client.Reader, hosts []*host.Host, own string) (*Others, error) {
	tenants, err := tenants(ctx, reader, own)
	if err != nil {
		return nil, err
	}
	others := &Others{Tenants: tenants, reader: reader}
	for _, h := range hosts {
		if h.Worker() {
			others.Hosts = append(others.Hosts, h.Name)
		}
	}
	return others, nil
}

func tenants(ctx context.Context, reader client.Reader, own string) ([]Tenant, error) {
	clusters, machines := &clusterv1.ClusterList{}, &clusterv1.MachineList{}
	err := reader.List(ctx, clusters)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil // Cluster API is not installed
	}
	if err != nil {
		return nil, fmt.Errorf("list the tenants of the lab: %w", err)
	}
	if err := reader.List(ctx, machines); err != nil {
		return nil, fmt.Errorf("list the workers of the lab's tenants: %w", err)
	}
	workers := map[client.ObjectKey]int{}
	for i := range machines.Items {
		workers[client.ObjectKey{Namespace: machines.Items[i].Namespace, Name: machines.Items[i].Spec.ClusterName}]++
	}
	var found []Tenant
	for i := range clusters.Items {
		if cluster := &clusters.Items[i]; cluster.Namespace != own {
			found = append(found, tenantOf(cluster, workers[client.ObjectKeyFromObject(cluster)]))
		}
	}
	return found, nil
}

func tenantOf(cluster *clusterv1.Cluster, workers int) Tenant {
	t := Tenant{Key: client.ObjectKeyFromObject(cluster), Deleting: !cluster.DeletionTimestamp.IsZero(), Workers: workers}
	condition := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1.ClusterAvailableCondition)
	switch {
	case condition == nil:
		t.Problem = "its Cluster has no condition " + clusterv1.ClusterAvailableCondition
	case condition.Status == "True":
		t.Available = true
	default:
		t.Problem = strings.Join(strings.Fields(condition.Message), " ")
	}
	return t
}

// String names everything in one line.
func (o *Others) String() string {
	var parts []string
	for _, t := range o.Tenants {
		parts = append(parts, t.String())
	}
	if len(parts) == 0 {
		parts = append(parts, "no tenant")
	}
	if len(o.Hosts) == 0 {
		return strings.Join(append(parts, "no host for workers"), "; ")
	}
	return strings.Join(append(parts, "hosts for workers: "+strings.Join(o.Hosts, ", ")), "; ")
}

// String names the tenant and says how it is.
func (t Tenant) String() string {
	state := "not available"
	switch {
	case t.Deleting:
		state = "being deleted"
	case t.Available:
		state = "available"
	}
	return fmt.Sprintf("tenant %s (%s, %d workers)", t.Key, state, t.Workers)
}
