package operator

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/recovery"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/background"
)

// mostQuiet is how long facts of lost members are not read again at the most.
const mostQuiet = 5 * time.Minute

// quiet is a wait for host nodes that are not heard from, as it was decided last. It may last for hours, and nothing but these
// host nodes, etcd, or what wakes the operator can end it: kubelet says nothing of pods there. So the rest is read less and less
// often meanwhile.
type quiet struct {
	// seen is what was seen of etcd and by the reconcile, and hosts are the host nodes.
	seen  string
	hosts []recovery.Host
	// says is what is waited for, until when it is not decided anew, and wait how long that is.
	says  string
	until time.Time
	wait  time.Duration
}

// quiets are those of all etcd clusters.
type quiets struct {
	lock sync.Mutex
	of   map[background.Key]quiet
}

func newQuiets() *quiets { return &quiets{of: map[background.Key]quiet{}} }

func (q *quiets) get(key background.Key) (quiet, bool) {
	q.lock.Lock()
	defer q.lock.Unlock()
	is, ok := q.of[key]
	return is, ok
}

// set keeps what is waited for; none for nil.
func (q *quiets) set(key background.Key, is *quiet) {
	q.lock.Lock()
	defer q.lock.Unlock()
	if is == nil {
		delete(q.of, key)
		return
	}
	q.of[key] = *is
}

func (q *quiets) forget(controlPlane client.ObjectKey) {
	q.lock.Lock()
	defer q.lock.Unlock()
	for key := range q.of {
		if key.Object == controlPlane {
			delete(q.of, key)
		}
	}
}

// isQuiet reports whether only what was waited for before is waited for still, and what that is. It reads those host nodes.
func (c *cluster) isQuiet(ctx context.Context, health *etcd.Health) (says string, still bool) {
	is, ok := c.operator.quiets.get(c.key())
	if !ok || is.seen != c.seenOf(health) || !c.operator.clock.Now().Before(is.until) {
		return "", false
	}
	hosts := c.hosts()
	for _, before := range is.hosts {
		if now, err := hosts.Named(ctx, before.Name); err != nil || now != before {
			return "", false
		}
	}
	return is.says, true
}

// noteQuiet keeps a wait that lasts until host nodes are heard from.
func (c *cluster) noteQuiet(health *etcd.Health, state recovery.State, action recovery.Action) {
	hosts := state.Silent()
	if action.Kind != recovery.Wait || len(hosts) == 0 || !c.membersAsDesired(health) {
		c.operator.quiets.set(c.key(), nil)
		return
	}
	next := &quiet{seen: c.seenOf(health), hosts: hosts, says: action.Reason, wait: Interval}
	if before, ok := c.operator.quiets.get(c.key()); ok && before.seen == next.seen && before.says == next.says {
		next.wait = min(2*before.wait, mostQuiet)
	}
	next.until = c.operator.clock.Now().Add(next.wait)
	c.operator.quiets.set(c.key(), next)
}

// seenOf is what is known without a look at the host cluster.
func (c *cluster) seenOf(health *etcd.Health) string {
	seen := &strings.Builder{}
	fmt.Fprintf(seen, "%s, %v, %t", c.Prompt(), health.Err, health.Disagree)
	for _, m := range health.Members {
		fmt.Fprintf(seen, "\n%s %x %t %t %t %t %t %t %t", m.Name, m.ID, m.Err == nil, m.Answered, m.Follows, m.Listed, m.Learner, m.Leader, m.Differs)
	}
	return seen.String()
}
