package tenantapi

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// nodesPages is the greatest number of pages: Kubernetes has 5,000 Nodes at most.
	nodesPages = 100
	// nodesTime bounds all pages together.
	nodesTime = time.Minute
	// maxField bounds each field of a Node that is kept. No field of a real Node is longer.
	maxField = 1 << 10
	// maxAddresses is the most addresses of a Node.
	maxAddresses = 100
)

// EachNode calls the callback with each Node of a tenant. The callback must not keep them. A tenant with more Nodes than
// Kubernetes supports counts as hostile.
func EachNode(ctx context.Context, guard *Guard, tenant client.Reader, do func(*corev1.Node)) error {
	ctx, cancel := context.WithTimeout(ctx, nodesTime)
	defer cancel()
	return bounds{"Nodes", ownPage, nodesPages, plausible, "a field that is longer than any API server takes"}.each(ctx, guard, tenant, &corev1.NodeList{}, func(object client.Object) {
		do(object.(*corev1.Node))
	})
}

// plausible reports whether no field of a Node that may be kept is too long.
func plausible(object client.Object) bool {
	node := object.(*corev1.Node)
	if len(node.Status.Addresses) > maxAddresses {
		return false
	}
	for _, address := range node.Status.Addresses {
		if len(address.Type) > maxField || len(address.Address) > maxField {
			return false
		}
	}
	for _, field := range []string{node.Name, string(node.UID), node.ResourceVersion, node.Spec.ProviderID, node.Status.NodeInfo.KubeletVersion} {
		if len(field) > maxField {
			return false
		}
	}
	return true
}
