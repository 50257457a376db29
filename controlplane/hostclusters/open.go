package hostclusters

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/connrotation"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/apply"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/untrusted"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/writes"
)

const (
	// openTimeout bounds one try to connect, with all caches filled.
	openTimeout = 30 * time.Second
	// requestTimeout bounds one request but a watch.
	requestTimeout = 10 * time.Second
)

// Options are how host clusters are used.
type Options struct {
	// Scheme knows the kinds in host clusters.
	Scheme *runtime.Scheme
	// Kinds are those that are watched there, restricted as the manager's own cache is.
	Kinds map[client.Object]cache.ByObject
	// PortNamespace holds the claims of port blocks there. Every manager that serves a host cluster must name
	// the same.
	PortNamespace string
	// HostPorts is where blocks are claimed from.
	HostPorts ports.Span
	// UserAgent, QPS and Burst are those of the manager.
	UserAgent string
	QPS       float32
	Burst     int
}

// errEnded is the answer to requests of a connection that ended.
var errEnded = errors.New("the connection to the host cluster ended: its kubeconfig changed, or nobody uses it any more")

// open implements opener.
func (o Options) open(ctx context.Context, op opening) (*Host, func(context.Context) error, error) {
	bounded, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	watching := o.transport(ctx, op.config)
	asking := rest.CopyConfig(watching)
	asking.Timeout = requestTimeout
	httpClient, err := httpClientFor(asking)
	if err != nil {
		return nil, nil, err
	}
	watchClient, err := httpClientFor(watching)
	if err != nil {
		return nil, nil, err
	}
	mapper, err := apiutil.NewDynamicRESTMapper(asking, httpClient)
	if err != nil {
		return nil, nil, err
	}
	live, err := client.New(asking, client.Options{Scheme: o.Scheme, Mapper: mapper, HTTPClient: httpClient})
	if err != nil {
		return nil, nil, err
	}
	writing := writes.Tell(live, writes.Host)
	check := func(ctx context.Context) error {
		return withWayOut(ensureNamespaces(writes.Because(ctx, "host-cluster"), writing, op.namespace, o.PortNamespace), op.namespace)
	}
	if err := check(bounded); err != nil {
		return nil, nil, err
	}
	if err := o.mayList(bounded, live, op.namespace); err != nil {
		return nil, nil, withWayOut(err, op.namespace)
	}
	held, err := cache.New(watching, cache.Options{
		HTTPClient: watchClient, Scheme: o.Scheme, Mapper: mapper, ByObject: o.inNamespaces(op.namespace),
		DefaultNamespaces: map[string]cache.Config{op.namespace: {}},
	})
	if err != nil {
		return nil, nil, err
	}
	if err := indexPods(bounded, held); err != nil {
		return nil, nil, err
	}
	if err := o.fill(ctx, bounded.Done(), held, within(op.namespace, op.changed)); err != nil {
		return nil, nil, err
	}
	cached, err := client.New(asking, client.Options{
		Scheme: o.Scheme, Mapper: mapper, HTTPClient: httpClient, Cache: &client.CacheOptions{Reader: held},
	})
	if err != nil {
		return nil, nil, err
	}
	cached = writes.Tell(cached, writes.Host)
	return &Host{
		Client: cached, Live: live, Applier: apply.New(cached, live),
		Claims:   ports.New(cached, live, o.PortNamespace, o.HostPorts),
		Identity: op.identity,
		Dial:     forwarder{config: op.config, life: ctx}.dial,
	}, check, nil
}

// httpClientFor is a client that follows no redirect.
func httpClientFor(config *rest.Config) (*http.Client, error) {
	made, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	own := *made
	own.Transport = untrusted.WithoutRedirects(made.Transport)
	return &own, nil
}

// transport is a configuration whose requests and connections end with the context, and whose answers are bounded.
func (o Options) transport(ctx context.Context, config *rest.Config) *rest.Config {
	own := rest.CopyConfig(config)
	own.UserAgent, own.QPS, own.Burst = o.UserAgent, o.QPS, o.Burst
	own.DisableCompression = true
	own.Wrap(untrusted.Bounded)
	dialer := connrotation.NewDialer((&net.Dialer{Timeout: requestTimeout, KeepAlive: 30 * time.Second}).DialContext)
	own.Dial = dialer.DialContext
	context.AfterFunc(ctx, dialer.CloseAll)
	own.Wrap(func(inner http.RoundTripper) http.RoundTripper { return until{ctx, inner} })
	return own
}

// until is a transport that serves until a context ends.
type until struct {
	life  context.Context //nolint:containedctx // That of a connection, not of a request.
	inner http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (u until) RoundTrip(request *http.Request) (*http.Response, error) {
	if u.life.Err() != nil {
		return nil, errEnded
	}
	return u.inner.RoundTrip(request)
}

// withWayOut says what gives the account of a kubeconfig the rights that it lacks.
func withWayOut(err error, namespace string) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	return fmt.Errorf("%w; in the host cluster apply what the release has for it and for this namespace: "+
		"kubectl apply -f host-cluster.yaml; sed 's/NAMESPACE/%[2]s/' host-cluster-namespace.yaml | kubectl apply -f -; "+
		"and put a token of the account kok-host-cluster of namespace %[2]s into the kubeconfig", err, namespace)
}

// ensureNamespaces makes the namespaces that are missing: that of the control planes is named after the one in the
// management cluster. An account with rights in one namespace alone may make none; its namespace exists already.
func ensureNamespaces(ctx context.Context, c client.Client, wanted ...string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for _, name := range wanted {
		err := c.Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{})
		if apierrors.IsNotFound(err) {
			err = c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: name, Labels: map[string]string{names.ManagedByLabel: names.ManagedBy},
			}}, client.FieldOwner(names.FieldManager))
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("look for namespace %s, which is made when it is missing: %w", name, err)
		}
	}
	return nil
}

// mayList tells at once of what a cache that is not allowed to list would only wait for.
func (o Options) mayList(ctx context.Context, live client.Reader, namespace string) error {
	for kind, byObject := range o.inNamespaces(namespace) {
		gvk, err := apiutil.GVKForObject(kind, o.Scheme)
		if err != nil {
			return err
		}
		namespaces := slices.Sorted(maps.Keys(byObject.Namespaces))
		if len(namespaces) == 0 {
			namespaces = []string{metav1.NamespaceAll}
		}
		for _, held := range namespaces {
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(gvk)
			if err := live.List(ctx, list, client.InNamespace(held), client.Limit(1)); err != nil {
				return fmt.Errorf("list %ss in namespace %q: %w", gvk.Kind, held, err)
			}
		}
	}
	return nil
}

// inNamespaces restricts the cache to the namespace of the control planes, and the claims of port blocks. Nodes are in none.
func (o Options) inNamespaces(namespace string) map[client.Object]cache.ByObject {
	kinds := map[client.Object]cache.ByObject{}
	for kind, byObject := range o.Kinds {
		switch kind.(type) {
		case *corev1.Node:
		case *corev1.ConfigMap:
			byObject.Namespaces = map[string]cache.Config{namespace: {}, o.PortNamespace: {}}
		default:
			byObject.Namespaces = map[string]cache.Config{namespace: {}}
		}
		kinds[kind] = byObject
	}
	return kinds
}

// fill starts a cache and waits until it holds all kinds, or until stopped.
func (o Options) fill(ctx context.Context, stopped <-chan struct{}, held cache.Cache, changed func(context.Context, client.Object)) error {
	told := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { notify(ctx, object, changed) },
		UpdateFunc: func(_, object any) { notify(ctx, object, changed) },
		DeleteFunc: func(object any) { notify(ctx, object, changed) },
	}
	synced := make([]toolscache.InformerSynced, 0, len(o.Kinds))
	for kind := range o.Kinds {
		informer, err := held.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		handler := told
		if _, ok := kind.(*corev1.Node); ok {
			handler = onCordons(ctx, held, changed)
		}
		registered, err := informer.AddEventHandler(handler)
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		synced = append(synced, registered.HasSynced)
	}
	go func() { _ = held.Start(ctx) }() // It ends with the context, without an error.
	if !toolscache.WaitForCacheSync(stopped, synced...) {
		return fmt.Errorf("it did not list all objects of control planes within %v", openTimeout)
	}
	return nil
}

// within passes on objects of control planes in one namespace alone. Somebody in a host cluster may label an object as one of another namespace,
// whose control planes have another host cluster.
func within(namespace string, changed func(context.Context, client.Object)) func(context.Context, client.Object) {
	return func(ctx context.Context, object client.Object) {
		if names.Tenant(object).Namespace == namespace {
			changed(ctx, object)
		}
	}
}

func notify(ctx context.Context, object any, changed func(context.Context, client.Object)) {
	if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	if known, ok := object.(client.Object); ok {
		changed(ctx, known)
	}
}
