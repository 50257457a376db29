// Package nodes reads the Nodes of the host cluster. A host may be one of them already: then no machine gets it, unless a
// person allows that.
package nodes

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/ownership"
)

// The manager lists the Nodes of the cluster that it runs in. That is the host cluster, unless a KOKControlPlane names
// another one. The probe recognises nodes of other clusters by their kubelet.
//
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch

// Claimant describes the machine that wants a host, and the Nodes that the host may already be.
func Claimant(ctx context.Context, reader client.Reader, host *infrav1.IDCHost, instanceID string) (*ownership.Claimant, error) {
	claimant := &ownership.Claimant{InstanceID: instanceID, TakeOver: host.Spec.TakeOver}
	if address, err := netip.ParseAddr(host.Spec.Address); err == nil {
		claimant.Reached = address
	}
	list := &corev1.NodeList{}
	if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the Nodes of the host cluster: %w", err)
	}
	for i := range list.Items {
		node := &list.Items[i]
		if addresses := Addresses(node); len(addresses) > 0 && !becameOf(host, node) {
			claimant.Nodes = append(claimant.Nodes, ownership.Node{Name: node.Name, Addresses: addresses})
		}
	}
	return claimant, nil
}

// becameOf reports whether the host is this Node because of one of our machines. A tenant that is its own management
// cluster has such Nodes here.
func becameOf(host *infrav1.IDCHost, node *corev1.Node) bool {
	own := "idc://" + host.Namespace + "/" + host.Name
	return node.Spec.ProviderID == own || strings.HasPrefix(node.Spec.ProviderID, own+"/")
}

// Addresses are the IP addresses of a Node.
func Addresses(node *corev1.Node) []netip.Addr {
	var addresses []netip.Addr
	for _, a := range node.Status.Addresses {
		if address, err := netip.ParseAddr(a.Address); err == nil {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// Trim removes from a Node what nobody reads of it, before it goes into the cache.
func Trim(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	trimmed := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion}}
	trimmed.Spec.ProviderID, trimmed.Status.Addresses = node.Spec.ProviderID, node.Status.Addresses
	return trimmed, nil
}

// Changes passes new Nodes, Nodes that are gone, and changes of a Node's addresses or provider ID. When the manager starts, it
// reconciles all hosts anyway.
var Changes = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*corev1.Node)
		after, alsoOK := e.ObjectNew.(*corev1.Node)
		return ok && alsoOK && (before.Spec.ProviderID != after.Spec.ProviderID || !slices.Equal(before.Status.Addresses, after.Status.Addresses))
	},
	GenericFunc: func(event.GenericEvent) bool { return false },
}
