package hostclusters

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/giveaway"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/untrusted"
)

// grace is how long a connection outlasts its Secret. When a namespace is deleted, kinds go in any order: a control
// plane whose Secret is gone may be deleted a moment later, and then needs the connection.
const grace = 10 * time.Second

// Clusters hands out host clusters. It is a source of the controller whose objects ask for them.
type Clusters struct {
	live    client.Reader
	writer  client.Writer
	open    opener
	request requester

	lock        sync.Mutex
	ctx         context.Context //nolint:containedctx // The controller's life, which its source learns.
	queue       workqueue.TypedRateLimitingInterface[reconcile.Request]
	requests    handler.MapFunc
	connections map[client.ObjectKey]*connection
	// made is how many connections there were ever.
	made int
}

// New returns host clusters whose kubeconfigs are in Secrets of the management cluster. live reads the Secrets from the
// API server. writer sets their label, which makes clusterctl take them along, and stores renewed tokens.
func New(live client.Reader, writer client.Writer, options Options) *Clusters {
	return newClusters(live, writer, options.open, options.request)
}

func newClusters(live client.Reader, writer client.Writer, open opener, request requester) *Clusters {
	return &Clusters{live: live, writer: writer, open: open, request: request, connections: map[client.ObjectKey]*connection{}}
}

// Source wakes the reconciles of control planes that asked for a host cluster when the answer changes, and those
// that requests returns for an object that changed there. Nothing is connected before a controller starts it;
// all connections end with it.
func (c *Clusters) Source(requests handler.MapFunc) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		c.lock.Lock()
		defer c.lock.Unlock()
		c.ctx, c.queue, c.requests = ctx, queue, requests
		return nil
	})
}

// Of returns the host cluster that a Secret names. From then on a changed answer wakes the user's reconcile. Of
// never waits. Its error is a *Problem while there is no connection. A control plane that is being deleted keeps
// its connection when the Secret was deleted together with it, or up to grace before: otherwise the deletion of a
// namespace would never end.
func (c *Clusters) Of(ctx context.Context, user, name client.ObjectKey, leaving bool) (*Host, error) {
	secret := &corev1.Secret{}
	err := c.live.Get(ctx, name, secret)
	if apierrors.IsNotFound(err) && leaving {
		if host, err := c.join(user, name); host != nil || err != nil {
			return host, err
		}
	}
	if apierrors.IsNotFound(err) {
		c.miss(user, name)
		return nil, invalid(fmt.Sprintf("Secret %s, which spec.hosting.kubeconfigRef names, is not there: make it, with the kubeconfig of the host cluster under the data key %q",
			name, controlplanev1.KubeconfigKey))
	}
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of the host cluster: %w", err)
	}
	kubeconfig := secret.Data[controlplanev1.KubeconfigKey]
	if len(kubeconfig) == 0 {
		c.Release(user)
		return nil, invalid(fmt.Sprintf("Secret %s, which spec.hosting.kubeconfigRef names, has no data key %q: put the kubeconfig of the host cluster there",
			name, controlplanev1.KubeconfigKey))
	}
	config, err := untrusted.Config(kubeconfig)
	if err != nil {
		c.Release(user)
		return nil, invalid(fmt.Sprintf("the kubeconfig in Secret %s, which spec.hosting.kubeconfigRef names, is refused: %v", name, err))
	}
	if err := giveaway.TakeAlong(ctx, c.writer, secret); err != nil {
		return nil, err
	}
	return c.use(user, name, secret.ResourceVersion, kubeconfig, config)
}

func invalid(message string) *Problem {
	return &Problem{Reason: conditionsv1.InvalidHostKubeconfigReason, Message: message}
}

// use joins the user to the connection by a kubeconfig. What was read before the present connection's is out of
// date and not gone back to.
func (c *Clusters) use(user, name client.ObjectKey, version string, kubeconfig []byte, config *rest.Config) (*Host, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.ctx == nil || c.ctx.Err() != nil {
		return nil, connecting(name)
	}
	c.leave(user, name)
	known, content := c.connections[name], sha256.Sum256(kubeconfig)
	switch {
	case known == nil:
		known = c.connect(name, config, content, map[client.ObjectKey]bool{})
	case older(version, known.version):
		version = known.version
	case known.content != content:
		known.stop()
		known = c.connect(name, config, content, known.users)
		c.wake(known)
	}
	known.version, known.users[user], known.missing = version, true, time.Time{}
	return known.answer()
}

// join adds the user to an open connection, even when its Secret is gone. It returns nil when no connection
// is open.
func (c *Clusters) join(user, name client.ObjectKey) (*Host, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	known := c.connections[name]
	if known == nil {
		return nil, nil
	}
	c.leave(user, name)
	known.users[user] = true
	return known.answer()
}

// miss takes the user from the connection whose Secret is not there, once that has lasted.
func (c *Clusters) miss(user, name client.ObjectKey) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.leave(user, name)
	switch known := c.connections[name]; {
	case known == nil:
	case known.missing.IsZero():
		known.missing = time.Now()
	case time.Since(known.missing) >= grace:
		c.leave(user, client.ObjectKey{})
	}
}

// older reports whether an object was read before another state of it.
func older(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}

// connect starts a connection; the caller holds the lock.
func (c *Clusters) connect(name client.ObjectKey, config *rest.Config, content [sha256.Size]byte, users map[client.ObjectKey]bool) *connection {
	c.made++
	made := &connection{
		name: name, identity: name.String() + "#" + strconv.Itoa(c.made), config: config,
		content: content, users: users, problem: connecting(name),
	}
	var ctx context.Context
	ctx, made.stop = context.WithCancel(c.ctx)
	c.connections[name] = made
	ctx = ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithValues("Secret", klog.KRef(name.Namespace, name.Name)))
	go c.keep(ctx, made)
	go c.renew(ctx, made)
	return made
}

// Release ends the interest of a control plane in its host cluster.
func (c *Clusters) Release(user client.ObjectKey) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.leave(user, client.ObjectKey{})
}

// leave removes the user from all connections but one, and ends connections without a user. The caller holds the
// lock.
func (c *Clusters) leave(user, but client.ObjectKey) {
	for name, known := range c.connections {
		if name == but || !known.users[user] {
			continue
		}
		delete(known.users, user)
		if len(known.users) == 0 {
			known.stop()
			delete(c.connections, name)
		}
	}
}

// wake reconciles all users of a connection; the caller holds the lock.
func (c *Clusters) wake(known *connection) {
	for user := range known.users {
		c.queue.Add(reconcile.Request{NamespacedName: user})
	}
}

// changed wakes the reconciles that an object of a host cluster concerns.
func (c *Clusters) changed(ctx context.Context, object client.Object) {
	for _, request := range c.requests(ctx, object) {
		c.queue.Add(request)
	}
}
