// Package supported has the table of Kubernetes versions that is in force. It is the ConfigMap
// kok-kubernetes-versions of the provider's namespace. Without that ConfigMap it is the built-in table.
// See docs/decisions/upgrades.md#supported-versions-are-one-table.
//
// Another ConfigMap counts as soon as it is seen, in every manager. One that holds no table changes
// nothing: the table before it stays in force, and an Event of the ConfigMap says why.
package supported

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

// Versions has the table that is in force. The zero value has the one that is built in, for good.
type Versions struct {
	table atomic.Pointer[versions.Table]

	key      client.ObjectKey
	reader   client.Reader
	recorder events.EventRecorder
	// controlPlanes lists those that another table reconciles.
	controlPlanes client.Reader
	// announced is the table that they were last reconciled for.
	announced *versions.Table

	lock  sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// Table is the table that is in force. The next call may return another one.
func (v *Versions) Table() *versions.Table {
	if table := v.table.Load(); table != nil {
		return table
	}
	return versions.BuiltIn()
}

// IsTable reports whether a ConfigMap is the one that can hold the table.
func (v *Versions) IsTable(key client.ObjectKey) bool { return key == v.key }

// Start lets another table reconcile all control planes through the queue of their controller, which
// calls it before its first reconcile; in a manager that does not lead, it never does.
func (v *Versions) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	v.lock.Lock()
	defer v.lock.Unlock()
	v.queue = queue
	return nil
}

// Load puts in force what the ConfigMap is now, for a manager that serves webhooks before its caches are
// filled.
func (v *Versions) Load(ctx context.Context, reader client.Reader) error {
	configMap, err := v.read(ctx, reader)
	if err != nil {
		return err
	}
	v.take(ctx, configMap)
	v.announced = v.Table()
	ctrl.LoggerFrom(ctx).Info("Kubernetes versions are supported", "versions", v.Table().String())
	return nil
}

// Reconcile puts in force what the ConfigMap is now.
func (v *Versions) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	configMap, err := v.read(ctx, v.reader)
	if err != nil {
		return ctrl.Result{}, err
	}
	v.take(ctx, configMap)
	table := v.Table()
	if v.announced != nil && table.Equal(v.announced) {
		return ctrl.Result{}, nil
	}
	ctrl.LoggerFrom(ctx).Info("Other Kubernetes versions are supported", "versions", table.String())
	if configMap != nil {
		v.recorder.Eventf(configMap, nil, corev1.EventTypeNormal, "VersionsInForce", "Read", "Kubernetes %s are supported", table)
	}
	if err := v.wake(ctx); err != nil {
		return ctrl.Result{}, err
	}
	v.announced = table
	return ctrl.Result{}, nil
}

// read returns the ConfigMap, nil when there is none.
func (v *Versions) read(ctx context.Context, reader client.Reader) (*corev1.ConfigMap, error) {
	configMap := &corev1.ConfigMap{}
	if err := reader.Get(ctx, v.key, configMap); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read the table of Kubernetes versions in ConfigMap %s: %w", v.key, err)
	}
	return configMap, nil
}

// take puts a ConfigMap's table in force if it holds one; without a ConfigMap, the one that is built in.
func (v *Versions) take(ctx context.Context, configMap *corev1.ConfigMap) {
	table := versions.BuiltIn()
	if configMap != nil {
		var err error
		if table, err = versions.FromConfigMap(configMap); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "The table of Kubernetes versions is invalid; the one before stays in force",
				"ConfigMap", v.key, "versions", v.Table().String())
			v.recorder.Eventf(configMap, nil, corev1.EventTypeWarning, "InvalidVersions", "Read", "%s; the table before stays in force: %s", err, v.Table())
			return
		}
	}
	v.table.Store(table)
}

// wake reconciles all control planes, unless another manager does.
func (v *Versions) wake(ctx context.Context) error {
	v.lock.Lock()
	queue := v.queue
	v.lock.Unlock()
	if queue == nil {
		return nil
	}
	list := &controlplanev1.KOKControlPlaneList{}
	if err := v.controlPlanes.List(ctx, list); err != nil {
		return fmt.Errorf("list the control planes that other versions may concern: %w", err)
	}
	for i := range list.Items {
		queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return nil
}
