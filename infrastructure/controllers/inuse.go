package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/ownership"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/probe"
)

// The manager lists the Nodes of the cluster that it runs in. That is the host cluster, unless a KOKControlPlane names
// another one. The probe recognises nodes of other clusters by their kubelet.
//
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch

// claimantOf describes the machine that wants a host, and the Nodes that the host may already be.
func claimantOf(ctx context.Context, reader client.Reader, host *infrav1.IDCHost, instanceID string) (*ownership.Claimant, error) {
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
		if addresses := addressesOf(node); len(addresses) > 0 && !becameOf(host, node) {
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

func addressesOf(node *corev1.Node) []netip.Addr {
	var addresses []netip.Addr
	for _, a := range node.Status.Addresses {
		if address, err := netip.ParseAddr(a.Address); err == nil {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// TrimNode keeps in the cache only those fields of a Node that are read.
func TrimNode(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	trimmed := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion}}
	trimmed.Spec.ProviderID, trimmed.Status.Addresses = node.Spec.ProviderID, node.Status.Addresses
	return trimmed, nil
}

// judge decides whose the host is, by the facts of the last probe and the Nodes and machines that are known now.
func (s *hostSeen) judge(ctx context.Context, reader client.Reader, host *infrav1.IDCHost, machine *infrav1.IDCMachine, instanceID string) error {
	if s.facts == nil { // It did not answer.
		return nil
	}
	claimant, err := claimantOf(ctx, reader, host, instanceID)
	if err != nil {
		return err
	}
	claimant.Bootstrapped = machine != nil && ptr.Deref(machine.Status.Initialization.Provisioned, false)
	found := ownership.Judge(&s.facts.Usage, claimant)
	switch found.Use {
	case ownership.OfOthers:
		s.problem = &probe.Problem{Reason: probe.InUse, Message: inUse(host, found.Err(), leaveHost)}
	case ownership.TakenOver:
		s.takenOver = found.Fact
	}
	return nil
}

// What to do with a host that must not be wiped.
const (
	leaveHost    = "delete the IDCHost"
	leaveMachine = "delete the Machine: its replacement gets another host"
)

// inUse says why a host is not changed, and the ways out.
func inUse(host *infrav1.IDCHost, err error, otherwise string) string {
	var refused *ownership.InUseError
	if !errors.As(err, &refused) || refused.Fact == "" {
		return err.Error()
	}
	is := ""
	if host.Spec.TakeOver != "" {
		is = fmt.Sprintf(", which is %q,", host.Spec.TakeOver)
	}
	return fmt.Sprintf("IDCHost %s is in use: %s; set its spec.takeOver%s to %q if this machine may be wiped, or else %s", host.Name, refused.Fact, is, refused.Fact, otherwise)
}

// isInUse reports whether a condition says that a host is in use.
func isInUse(object conditions.Getter, conditionType string) bool {
	found := conditions.Get(object, conditionType)
	return found != nil && found.Status == metav1.ConditionFalse && found.Reason == infrav1.InUseReason
}
