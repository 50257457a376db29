package hostcluster

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// describeNode returns a host's Node with what an administrator says about it: its pool and its pod network.
func (c *cluster) describeNode(ctx context.Context, h *host.Host) (*corev1.Node, error) {
	nodes := c.client.CoreV1().Nodes()
	node, err := nodes.Get(ctx, h.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	labels := map[string]string{}
	if h.Site == host.SiteIDC {
		if _, ok := node.Labels[HostNodeLabel]; !ok {
			labels[HostNodeLabel] = "true"
		}
	}
	if len(labels) == 0 && node.Spec.PodCIDR != "" {
		return node, nil
	}
	patch := object{
		"metadata": object{"labels": labels},
		"spec":     object{"podCIDR": h.PodCIDR.String(), "podCIDRs": []string{h.PodCIDR.String()}},
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	node, err = nodes.Patch(ctx, h.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{})
	if err != nil {
		return nil, fmt.Errorf("describe node %s: %w", h.Name, err)
	}
	return node, nil
}
