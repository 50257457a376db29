package tenant

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/timeline"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/scheme"
)

// Stages of a deletion.
const (
	PodsGone timeline.Stage = "pods gone"
	AllGone  timeline.Stage = "everything gone"
)

// DeleteRows are the stages of a deletion.
func DeleteRows() []timeline.Row {
	return []timeline.Row{
		timeline.Last("pods gone", PodsGone, ""),
		timeline.Last("every object gone", AllGone, ""),
	}
}

// Delete deletes a Cluster and waits until nothing of the tenant is left in the host cluster, its claim of host ports
// included.
func (w *Watcher) Delete(ctx context.Context, key client.ObjectKey) (*timeline.Timeline, error) {
	t := timeline.Start()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if err := w.client.Delete(ctx, cluster); client.IgnoreNotFound(err) != nil {
		return t, fmt.Errorf("delete Cluster %s: %w", key, err)
	}
	for {
		left, err := w.left(ctx, key)
		if err != nil {
			return t, err
		}
		if !strings.Contains(strings.Join(left, " "), "Pod ") {
			t.Mark(PodsGone, "", "")
		}
		if len(left) == 0 {
			t.Mark(AllGone, "", "")
			return t, nil
		}
		select {
		case <-w.changed:
		case <-time.After(100 * time.Millisecond): // claims of ports are not watched
		case <-ctx.Done():
			return t, fmt.Errorf("delete Cluster %s: after %.1f s there are still %s: %w", key, t.Since().Seconds(), strings.Join(left, ", "), context.Cause(ctx))
		}
	}
}

// left names what there is of a tenant, from the watches, and when these have nothing, from the API server.
func (w *Watcher) left(ctx context.Context, key client.ObjectKey) ([]string, error) {
	left, err := listAll(ctx, w.cache, key)
	if err != nil || len(left) > 0 {
		return left, err
	}
	if left, err = listAll(ctx, w.client, key); err != nil || len(left) > 0 {
		return left, err
	}
	claims := &corev1.ConfigMapList{}
	if err := w.client.List(ctx, claims, client.MatchingLabels(names.Labels(key))); err != nil {
		return nil, fmt.Errorf("list what is left of tenant %s: %w", key, err)
	}
	for i := range claims.Items {
		left = append(left, "ConfigMap "+client.ObjectKeyFromObject(&claims.Items[i]).String())
	}
	return left, nil
}

func listAll(ctx context.Context, reader client.Reader, key client.ObjectKey) ([]string, error) {
	var left []string
	for _, kind := range kinds() {
		gvk, err := apiutil.GVKForObject(kind, scheme.Scheme())
		if err != nil {
			return nil, err
		}
		object, err := scheme.Scheme().New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err != nil {
			return nil, err
		}
		list := object.(client.ObjectList)
		options := []client.ListOption{client.InNamespace(key.Namespace)}
		if gvk.Group != clusterv1.GroupVersion.Group || gvk.Kind != clusterv1.ClusterKind {
			options = append(options, client.MatchingLabels{clusterv1.ClusterNameLabel: key.Name})
		}
		if err := reader.List(ctx, list, options...); err != nil {
			if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
				continue
			}
			return nil, fmt.Errorf("list %s of tenant %s: %w", gvk.Kind, key, err)
		}
		err = meta.EachListItem(list, func(item runtime.Object) error {
			o := item.(client.Object)
			if gvk.Kind != clusterv1.ClusterKind || o.GetName() == key.Name {
				left = append(left, gvk.Kind+" "+o.GetName())
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return left, nil
}
