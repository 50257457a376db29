package hostclusters

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/cordon"
)

func indexPods(ctx context.Context, held cache.Cache) error {
	return held.IndexField(ctx, &corev1.Pod{}, cordon.PodsByNode, cordon.NodeOf)
}

// onCordons reports the etcd members on a node as changed when the node is cordoned or uncordoned. It ignores all other
// changes of Nodes, which are frequent.
func onCordons(ctx context.Context, held client.Reader, changed func(context.Context, client.Object)) toolscache.ResourceEventHandlerFuncs {
	return toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(before, after any) {
		node, ok := after.(*corev1.Node)
		if !ok || !cordon.Changed(before, after) {
			return
		}
		members, err := cordon.Members(ctx, held, node.Name)
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Look for members of etcd on a node", "Node", klog.KRef("", node.Name))
		}
		for i := range members {
			changed(ctx, &members[i])
		}
	}}
}
