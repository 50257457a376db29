package hostclusters

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/panics"
)

const (
	// firstRetry is how soon a connection is tried again that failed for the first time, lastRetry how soon at the
	// latest.
	firstRetry = time.Second
	lastRetry  = time.Minute
	// checkInterval is how often a host cluster is checked. Patience is how many answers in a row
	// may be missing.
	checkInterval = 10 * time.Second
	patience      = 2
)

// connection is the connection by one content of one Secret. What can change of it is guarded by the lock of Clusters.
type connection struct {
	name     client.ObjectKey
	identity string
	config   *rest.Config
	stop     context.CancelFunc
	content  [sha256.Size]byte

	// version is the resource version at which the Secret was last seen with the content.
	version string
	// missing is when the Secret was first found missing since it was last seen.
	missing time.Time
	users   map[client.ObjectKey]bool
	// problem is why the host cluster cannot be used; nil when it can.
	problem *Problem
	// warning is what a person is told of the token; empty for nothing.
	warning string
	host    *Host
}

// answer is the host cluster, or why it cannot be used; the caller holds the lock.
func (c *connection) answer() (*Host, error) {
	switch {
	case c.problem != nil && c.warning != "":
		return nil, &Problem{Reason: c.problem.Reason, Message: c.problem.Message + "; " + c.warning}
	case c.problem != nil:
		return nil, c.problem
	case c.warning != "":
		host := *c.host
		host.Warning = c.warning
		return &host, nil
	}
	return c.host, nil
}

// opener connects to the host cluster, within a time of its own. What it opened lasts until the context ends; check
// looks whether the host cluster is there.
type opener func(ctx context.Context, o opening) (host *Host, check func(context.Context) error, err error)

type opening struct {
	// namespace is that of the control planes, identity that of the connection.
	namespace, identity string
	config              *rest.Config
	// changed is called for every object there that changed.
	changed func(context.Context, client.Object)
}

func connecting(name client.ObjectKey) *Problem {
	return &Problem{
		Reason:  conditionsv1.HostClusterConnectingReason,
		Message: fmt.Sprintf("connecting to the host cluster by the kubeconfig in Secret %s", name),
	}
}

func (c *connection) unreachable(err error) *Problem {
	return &Problem{
		Reason: conditionsv1.HostClusterUnreachableReason,
		Message: fmt.Sprintf("the kubeconfig in Secret %s gives no access to the host cluster, and what runs there goes on: %s",
			c.name, errortext.Steady(err)),
	}
}

// keep connects, however often that takes, and then looks after the connection until its context ends.
func (c *Clusters) keep(ctx context.Context, self *connection) {
	for retry := firstRetry; ; retry = min(2*retry, lastRetry) {
		opened, end := context.WithCancel(ctx)
		host, check, err := c.tryOpen(opened, self)
		if err == nil {
			c.record(ctx, self, host, nil)
			c.lookAfter(ctx, self, check)
			end()
			return
		}
		end()
		c.record(ctx, self, nil, self.unreachable(err))
		if !wait(ctx, retry) {
			return
		}
	}
}

func (c *Clusters) tryOpen(ctx context.Context, self *connection) (host *Host, check func(context.Context) error, err error) {
	defer panics.Recover(ctx, "connecting", &err)
	return c.open(ctx, opening{
		namespace: self.name.Namespace, identity: self.identity, config: self.config, changed: c.changed,
	})
}

func tryCheck(ctx context.Context, check func(context.Context) error) (err error) {
	defer panics.Recover(ctx, "checking", &err)
	return check(ctx)
}

// lookAfter tells of a host cluster that is away, and that it is back.
func (c *Clusters) lookAfter(ctx context.Context, self *connection, check func(context.Context) error) {
	for missing := 0; wait(ctx, checkInterval); {
		err := tryCheck(ctx, check)
		if err == nil {
			missing = 0
			c.record(ctx, self, self.host, nil)
		} else if missing++; missing >= patience {
			c.record(ctx, self, self.host, self.unreachable(err))
		}
	}
}

// record keeps what is known of a connection, unless it ended, and reconciles its users when that is new.
func (c *Clusters) record(ctx context.Context, self *connection, host *Host, problem *Problem) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if ctx.Err() != nil {
		return
	}
	same := self.host == host && (self.problem == nil) == (problem == nil) && (problem == nil || *self.problem == *problem)
	self.host, self.problem = host, problem
	if !same {
		c.wake(self)
	}
}

// wait reports whether the context lasted for a time.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
