package tenantapi

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// kept is how long an unused Guard is kept: longer than the longest pause of a tenant, so that no
// pause is forgotten.
const kept = 2 * lastPause

// refused has all its labels from the start: Prometheus sees no increase in a series that begins with 1.
var refused = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "kok_tenant_hostile_answers_total",
	Help: "Answers of tenants' API servers that were refused.",
}, []string{"offence"})

func init() {
	for _, offence := range offences {
		refused.WithLabelValues(string(offence))
	}
	metrics.Registry.MustRegister(refused)
}

// Guards has a Guard for each tenant. The zero value is ready.
type Guards struct {
	// Clock is the real one if nil.
	Clock clock.PassiveClock

	lock   sync.Mutex
	guards map[client.ObjectKey]*Guard
	swept  time.Time
}

// Of returns the Guard for a tenant, by its Cluster: always the same one while it is in use.
func (g *Guards) Of(tenant client.ObjectKey) *Guard {
	g.lock.Lock()
	defer g.lock.Unlock()
	if g.Clock == nil {
		g.Clock = clock.RealClock{}
	}
	now := g.Clock.Now()
	g.sweep(now)
	if g.guards == nil {
		g.guards = map[client.ObjectKey]*Guard{}
	}
	known := g.guards[tenant]
	if known == nil {
		known = &Guard{tenant: tenant, clock: g.Clock, used: now}
		g.guards[tenant] = known
	}
	return known
}

// sweep forgets Guards that were not used for long. The caller holds the lock.
func (g *Guards) sweep(now time.Time) {
	if now.Sub(g.swept) < kept/2 {
		return
	}
	g.swept = now
	for tenant, known := range g.guards {
		if known.idle() {
			delete(g.guards, tenant)
		}
	}
}
