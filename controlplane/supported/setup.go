package supported

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

// SetupWithManager has the manager watch the ConfigMap of a namespace, whether it leads or not: its
// webhooks judge versions in any case.
func SetupWithManager(mgr ctrl.Manager, namespace string) (*Versions, error) {
	v := &Versions{
		key:           client.ObjectKey{Namespace: namespace, Name: versions.ConfigMapName},
		recorder:      mgr.GetEventRecorder("kok-control-plane"),
		controlPlanes: mgr.GetClient(),
	}
	// The manager's own cache has ConfigMaps of tenants alone.
	one, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
		DefaultNamespaces: map[string]cache.Config{namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", v.key.Name)}},
	})
	if err != nil {
		return nil, fmt.Errorf("make the cache of ConfigMap %s: %w", v.key, err)
	}
	v.reader = one
	if err := mgr.Add(always{one}); err != nil {
		return nil, fmt.Errorf("add the cache of ConfigMap %s: %w", v.key, err)
	}
	c, err := controller.New("kubernetes-versions", mgr, controller.Options{Reconciler: v, NeedLeaderElection: ptr.To(false)})
	if err != nil {
		return nil, fmt.Errorf("set up the controller of ConfigMap %s: %w", v.key, err)
	}
	for _, from := range []source.Source{
		source.Kind[client.Object](one, &corev1.ConfigMap{}, &handler.EnqueueRequestForObject{}),
		// A ConfigMap that went between Load and the watch is no event.
		source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			queue.Add(reconcile.Request{NamespacedName: v.key})
			return nil
		}),
	} {
		if err := c.Watch(from); err != nil {
			return nil, fmt.Errorf("watch ConfigMap %s: %w", v.key, err)
		}
	}
	return v, nil
}

// always is a cache that runs in managers that do not lead, too.
type always struct{ cache.Cache }

func (always) NeedLeaderElection() bool { return false }
