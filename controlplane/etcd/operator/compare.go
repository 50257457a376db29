package operator

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/hashes"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/background"
)

// comparisons are what comparisons of members' data have found, by etcd cluster. A manager that starts anew
// compares anew.
type comparisons struct {
	lock sync.Mutex
	of   map[background.Key]compared
}

type compared struct {
	memory hashes.Memory
	next   time.Time
}

func newComparisons() *comparisons { return &comparisons{of: map[background.Key]compared{}} }

func (c *comparisons) get(key background.Key) compared {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.of[key]
}

func (c *comparisons) set(key background.Key, is compared) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.of[key] = is
}

func (c *comparisons) forget(controlPlane client.ObjectKey) {
	c.lock.Lock()
	defer c.lock.Unlock()
	for key := range c.of {
		if key.Object == controlPlane {
			delete(c.of, key)
		}
	}
}

// tell notes in a health which members differ.
func (c *comparisons) tell(key background.Key, health *etcd.Health) {
	known, voters := c.get(key).memory, []uint64(nil)
	for _, m := range health.Members {
		if m.Listed && !m.Learner {
			voters = append(voters, m.ID)
		}
	}
	health.Disagree = known.Undecided(voters)
	for i := range health.Members {
		m := &health.Members[i]
		m.Differs = m.Listed && !m.Learner && known.Differs[m.ID]
	}
}

// compare compares the data of the members, where it is time to. While pods are rolled out or not all vote, it waits: then members
// are of different versions, or restart.
func (c *cluster) compare(ctx context.Context, health *etcd.Health) {
	reached, now, is := c.operator.etcd, c.operator.clock.Now(), c.operator.compared.get(c.key())
	every := cmp.Or(reached.HashEvery, HashInterval)
	switch {
	case reached.Hashes == nil || !c.Bootstrapped || c.RollingOut || health.Err != nil || !c.membersAsDesired(health):
		return
	case is.next.IsZero(): // Managers that start do not compare all etcd clusters at once.
		is.next = now.Add(rand.N(every))
		c.operator.compared.set(c.key(), is)
		return
	case now.Before(is.next):
		return
	}
	is.next = now.Add(every * time.Duration(1+largest(health)/hashSize))
	found, err := reached.Hashes(ctx, health, c.members, c.tls)
	if err == nil && ctx.Err() == nil {
		is.memory = is.memory.After(found)
	}
	c.operator.compared.set(c.key(), is)
	c.operator.compared.tell(c.key(), health)
	c.log.V(4).Info("Compared the data of etcd's members", "hashes", found, "error", err)
}

// largest is the size of the largest database.
func largest(health *etcd.Health) int64 {
	if len(health.Members) == 0 {
		return 0
	}
	return slices.MaxFunc(health.Members, func(a, b etcd.Member) int { return cmp.Compare(a.DatabaseInUse, b.DatabaseInUse) }).DatabaseInUse
}
