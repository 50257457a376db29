package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/shape"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// apartLabel is on the host nodes that are measured, while there are others: a tenant has an API server on each of its host
// nodes, and each run is to have the same number.
const apartLabel = "kok.cluster.x-k8s.io/bench-create"

// findHosts finds the hosts that are measured.
func (b *bench) findHosts(ctx context.Context) error {
	all, err := b.lab.Hosts()
	if err != nil {
		return err
	}
	b.all = all
	nodes := &corev1.NodeList{}
	if err := b.client.List(ctx, nodes); err != nil {
		return fmt.Errorf("list the host cluster's nodes (is the lab up?): %w", err)
	}
	var others bool
	if b.hosts, others, err = choose(all, nodes.Items, int(shape.HighlyAvailable.APIServers)); err != nil {
		return err
	}
	if others {
		b.apart = map[string]string{apartLabel: "true"}
	}
	return nil
}

// choose takes the first hosts of the data centre that can carry control planes, and tells whether there are other host nodes.
func choose(all []*host.Host, nodes []corev1.Node, want int) (chosen []*host.Host, others bool, err error) {
	var problems []string
	for _, h := range dataCentre(all) {
		if problem := unfit(h.Name, nodes); problem != "" {
			problems = append(problems, h.Name+" "+problem)
		} else if len(chosen) < want {
			chosen = append(chosen, h)
		}
	}
	if len(chosen) < want {
		return nil, false, fmt.Errorf("control planes are measured on %d host nodes of the lab, and %d can be used:\n  %s", want, len(chosen), strings.Join(problems, "\n  "))
	}
	hostNodes := slices.DeleteFunc(slices.Clone(nodes), func(node corev1.Node) bool { return !hostNode(&node) })
	return chosen, len(hostNodes) > want, nil
}

// dataCentre are the hosts of the data centre that are no workers.
func dataCentre(all []*host.Host) []*host.Host {
	return slices.DeleteFunc(slices.Clone(all), func(h *host.Host) bool { return h.Site != host.SiteIDC || h.Worker() })
}

func hostNode(node *corev1.Node) bool { return node.Labels[controlplanev1.HostNodeLabel] == "true" }

// unfit says why a host cannot carry a control plane, and which command changes that; empty when it can.
func unfit(name string, nodes []corev1.Node) string {
	index := slices.IndexFunc(nodes, func(node corev1.Node) bool { return node.Name == name })
	if index < 0 {
		return "is no node of the host cluster"
	}
	node := &nodes[index]
	ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	switch {
	case !ready:
		return "is not ready: kubectl describe node " + node.Name
	case !hostNode(node):
		return fmt.Sprintf("is no host node: kubectl label node %s --overwrite %s=true", node.Name, controlplanev1.HostNodeLabel)
	case node.Spec.Unschedulable:
		return "is cordoned: kubectl uncordon " + node.Name
	}
	for _, taint := range node.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule {
			return fmt.Sprintf("has a taint: kubectl taint node %s %s:%s-", node.Name, taint.Key, taint.Effect)
		}
	}
	return ""
}

// on are the labels of one host's node alone.
func on(h *host.Host) map[string]string { return map[string]string{corev1.LabelHostname: h.Name} }

// setApart labels the hosts that are measured, if others are to be kept out.
func (b *bench) setApart(ctx context.Context) error {
	if b.apart == nil {
		return nil
	}
	for _, h := range b.hosts {
		if err := b.label(ctx, h.Name, `"true"`); err != nil {
			return err
		}
	}
	return nil
}

// giveBack removes the labels of setApart, also those that an interrupted benchmark left.
func (b *bench) giveBack(ctx context.Context) error {
	nodes := &corev1.NodeList{}
	if err := b.client.List(ctx, nodes, client.HasLabels{apartLabel}); err != nil {
		return fmt.Errorf("list nodes with label %s: %w", apartLabel, err)
	}
	for i := range nodes.Items {
		if err := b.label(ctx, nodes.Items[i].Name, "null"); err != nil {
			return err
		}
	}
	return nil
}

// label sets apartLabel of a node to a JSON value.
func (b *bench) label(ctx context.Context, name, value string) error {
	node := &corev1.Node{}
	node.Name = name
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, apartLabel, value)
	if err := b.client.Patch(ctx, node, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		return fmt.Errorf("set label %s of node %s: %w", apartLabel, name, err)
	}
	return nil
}
