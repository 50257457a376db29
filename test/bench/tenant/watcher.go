package tenant

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/scheme"
)

// Watcher watches the tenants of one namespace.
type Watcher struct {
	client client.Client
	cache  cache.Cache
	// changed is told of every change.
	changed chan struct{}
	hosts   map[string]reachable

	lock    sync.Mutex
	tenants map[string]*Tenant
}

// reachable is how a host's processes are asked.
type reachable struct {
	address   string
	client    *http.Client
	namespace *probe.Namespace
}

// kinds are everything that a tenant leaves in its namespace; Events stay behind.
func kinds() []client.Object {
	return []client.Object{
		&corev1.Pod{}, &appsv1.StatefulSet{}, &appsv1.DaemonSet{}, &appsv1.Deployment{}, &appsv1.ReplicaSet{},
		&appsv1.ControllerRevision{}, &policyv1.PodDisruptionBudget{}, &corev1.PersistentVolumeClaim{}, &corev1.Service{},
		&corev1.ConfigMap{}, &corev1.Secret{}, &controlplanev1.KOKControlPlane{}, &clusterv1.Cluster{},
	}
}

// Watch begins to watch a namespace of the host cluster; it ends with the context. The hosts' processes are asked from
// their own networks: some listen on loopback alone.
func Watch(ctx context.Context, config *rest.Config, c client.Client, namespace string, hosts []*host.Host) (*Watcher, error) {
	w := &Watcher{client: c, changed: make(chan struct{}, 1), hosts: map[string]reachable{}, tenants: map[string]*Tenant{}}
	for _, h := range hosts {
		n, err := probe.OpenNamespace(h)
		if err != nil {
			return nil, err
		}
		w.hosts[h.Name] = reachable{h.Address.String(), probe.Client(n.DialContext), n}
	}
	var err error
	w.cache, err = cache.New(config, cache.Options{Scheme: scheme.Scheme(), DefaultNamespaces: map[string]cache.Config{namespace: {}}})
	if err != nil {
		return nil, fmt.Errorf("watch namespace %s: %w", namespace, err)
	}
	handler := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { w.observe(object) },
		UpdateFunc: func(_, object any) { w.observe(object) },
		DeleteFunc: func(any) { w.tell() },
	}
	for _, kind := range append(kinds(), &corev1.Event{}) {
		informer, err := w.cache.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err == nil {
			_, err = informer.AddEventHandler(handler)
		}
		if err != nil {
			return nil, fmt.Errorf("watch %T in namespace %s: %w", kind, namespace, err)
		}
	}
	go func() { _ = w.cache.Start(ctx) }() // it fails only when it is started twice
	if !w.cache.WaitForCacheSync(ctx) {
		return nil, errors.Join(errors.New("read the host cluster"), context.Cause(ctx))
	}
	return w, nil
}

// Close ends what Watch made beside its watches.
func (w *Watcher) Close() {
	for _, h := range w.hosts {
		h.namespace.Close()
	}
}

func (w *Watcher) add(t *Tenant) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.tenants[t.Key.Name] = t
}

func (w *Watcher) observe(object any) {
	if o, ok := object.(client.Object); ok {
		if t := w.tenantOf(o); t != nil {
			t.observe(o)
		}
	}
	w.tell()
}

func (w *Watcher) tell() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// tenantOf finds the tenant that an object belongs to: by its label, or by its name, as for Events and the
// KOKControlPlane before Cluster API labelled it.
func (w *Watcher) tenantOf(object client.Object) *Tenant {
	w.lock.Lock()
	defer w.lock.Unlock()
	if t := w.tenants[object.GetLabels()[names.ClusterNameLabel]]; t != nil {
		return t
	}
	name := object.GetName()
	if event, ok := object.(*corev1.Event); ok {
		name = event.InvolvedObject.Name
	}
	for _, t := range w.tenants {
		if name == t.Key.Name || strings.HasPrefix(name, t.Key.Name+"-") {
			return t
		}
	}
	return nil
}

func (w *Watcher) reach(node string) (*http.Client, string, error) {
	h, ok := w.hosts[node]
	if !ok {
		return nil, "", fmt.Errorf("a pod is on node %s, which is no host of the lab's data centre", node)
	}
	return h.client, h.address, nil
}
