package servingcertificates

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/references"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/tenantapi"
)

// holders has all names and addresses in a Cluster, each with the object that has it. When two nodes claim the same one,
// neither gets it, because either may lie.
type holders struct {
	apiServers []Holder
	machines   []clusterv1.Machine
	// nodes have their names and addresses alone.
	nodes []corev1.Node
}

// holders gathers them.
func (r *Reconciler) holders(ctx context.Context, cluster *clusterv1.Cluster, machines []clusterv1.Machine) (*holders, error) {
	all := &holders{machines: machines}
	tenant := client.ObjectKeyFromObject(cluster)
	live, err := r.Tenants.GetUncachedClient(ctx, tenant)
	if err != nil {
		return nil, fmt.Errorf("connect to the tenant: %w", err)
	}
	err = tenantapi.EachNode(ctx, r.Guard(tenant), live, func(node *corev1.Node) {
		all.nodes = append(all.nodes, corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: node.Name}, Status: corev1.NodeStatus{Addresses: slices.Clone(node.Status.Addresses)},
		})
	})
	if err != nil {
		return nil, err
	}
	slice := &discoveryv1.EndpointSlice{}
	if err := live.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceDefault, Name: "kubernetes"}, slice); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get the tenant's EndpointSlice default/kubernetes: %w", err)
	}
	for _, endpoint := range slice.Endpoints {
		all.addAPIServer(endpoint.Addresses...)
	}
	if !references.HasKOKControlPlane(cluster) {
		return all, nil
	}
	controlPlane := &controlplanev1.KOKControlPlane{}
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Spec.ControlPlaneRef.Name}
	if err := r.APIReader.Get(ctx, key, controlPlane); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get KOKControlPlane %s: %w", key, err)
	}
	all.addAPIServer(controlPlane.Spec.ControlPlaneEndpoint.Host)
	all.addAPIServer(controlPlane.Spec.KubeAPIServer.CertSANs...)
	return all, nil
}

func (h *holders) addAPIServer(addresses ...string) {
	for _, address := range addresses {
		if address != "" {
			h.apiServers = append(h.apiServers, Holder{address, "the API server"})
		}
	}
}

// besides leaves out what a Machine and its node have.
func (h *holders) besides(machine, node string) []Holder {
	others := append([]Holder(nil), h.apiServers...)
	for i := range h.machines {
		if m := &h.machines[i]; m.Name != machine {
			for _, address := range machineAddresses(m) {
				others = append(others, Holder{address, "Machine " + m.Name})
			}
		}
	}
	for i := range h.nodes {
		if n := &h.nodes[i]; n.Name != node {
			others = append(others, Holder{n.Name, "Node " + n.Name})
			for _, address := range nodeAddresses(n) {
				others = append(others, Holder{address, "Node " + n.Name})
			}
		}
	}
	return others
}
