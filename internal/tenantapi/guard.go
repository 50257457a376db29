package tenantapi

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/untrusted"
)

const (
	// tolerated is how many hostile answers in a row have no consequence.
	tolerated = 2
	// firstPause and lastPause are how long a tenant is left alone the first time, and at most.
	firstPause = time.Minute
	lastPause  = time.Hour
	// forgiven is after which time without an offence earlier ones no longer count.
	forgiven = 10 * time.Minute
)

// Offence is what makes an answer hostile; it is the label of a metric, too.
type Offence string

// Offences.
const (
	// Redirect is an answer that leads to another address.
	Redirect Offence = "redirect"
	// TooLarge is an answer beyond its bound.
	TooLarge Offence = "too-large"
	// Compressed is an answer that is compressed although the request did not allow it.
	Compressed Offence = "compressed"
	// NotJSON is an answer in another encoding than was asked for.
	NotJSON Offence = "not-json"
	// TooMany is more objects than are kept, in a tenant or in one answer.
	TooMany Offence = "too-many"
)

var offences = []Offence{Redirect, TooLarge, Compressed, NotJSON, TooMany}

// Guard stands before the API server of one tenant.
type Guard struct {
	tenant client.ObjectKey
	clock  clock.PassiveClock
	// held is how many bytes of answers, without watches, are in memory now.
	held atomic.Int64

	lock    sync.Mutex
	used    time.Time
	strikes int
	struck  time.Time
	reason  string
	pause   time.Duration
	until   time.Time
	// lists are those that come in pages, by the path of their requests.
	lists map[string]*list
}

// Wrap returns a transport to the tenant that goes through the Guard.
func (g *Guard) Wrap(inner http.RoundTripper) http.RoundTripper {
	return &guarded{Around: untrusted.Around{Inner: untrusted.WithoutRedirects(inner)}, guard: g}
}

// Strike counts a hostile answer. After one too many the tenant is left alone. reason is for people.
func (g *Guard) Strike(offence Offence, reason string) {
	g.strike(offence, reason, 1)
}

// LeaveAlone leaves the tenant alone at once.
func (g *Guard) LeaveAlone(offence Offence, reason string) {
	g.strike(offence, reason, tolerated+1)
}

func (g *Guard) strike(offence Offence, reason string, weight int) {
	refused.WithLabelValues(string(offence)).Inc()
	g.lock.Lock()
	defer g.lock.Unlock()
	g.forgive()
	now := g.clock.Now()
	g.reason, g.struck = reason, now
	if now.Before(g.until) {
		return
	}
	if g.strikes += weight; g.strikes <= tolerated {
		return
	}
	// After the pause one more hostile answer is enough.
	g.strikes, g.pause = tolerated, min(max(2*g.pause, firstPause), lastPause)
	g.until = now.Add(g.pause)
	ctrl.Log.Info("A tenant is left alone for its hostile answers", "Cluster", klog.KRef(g.tenant.Namespace, g.tenant.Name), "reason", reason, "for", g.pause.String())
}

// forgive forgets old offences. The caller holds the lock.
func (g *Guard) forgive() {
	last := g.struck
	if g.until.After(last) {
		last = g.until
	}
	if g.strikes > 0 && g.clock.Since(last) >= forgiven {
		g.strikes, g.pause, g.reason = 0, 0, ""
	}
}

// Problem says what the tenant did lately; empty when it did nothing.
func (g *Guard) Problem() string {
	g.lock.Lock()
	defer g.lock.Unlock()
	g.forgive()
	if g.clock.Now().Before(g.until) {
		return g.leftAlone().Error()
	}
	return g.reason
}

// leftAlone is the message during a pause. It does not change, because conditions have it.
func (g *Guard) leftAlone() error {
	return fmt.Errorf("the tenant's API server is left alone for %s: %s; mend what answers at its address", g.pause, g.reason)
}

// pass returns an error while the tenant is left alone.
func (g *Guard) pass() error {
	g.lock.Lock()
	defer g.lock.Unlock()
	g.used = g.clock.Now()
	if g.used.Before(g.until) {
		return g.leftAlone()
	}
	return nil
}

// alone reports whether the tenant is left alone.
func (g *Guard) alone() bool {
	g.lock.Lock()
	defer g.lock.Unlock()
	return g.clock.Now().Before(g.until)
}

// idle reports whether the Guard has not been used for long.
func (g *Guard) idle() bool {
	g.lock.Lock()
	defer g.lock.Unlock()
	return g.clock.Since(g.used) >= kept
}

// guarded is a transport that passes a Guard.
type guarded struct {
	untrusted.Around
	guard *Guard
}

// RoundTrip implements http.RoundTripper.
func (t *guarded) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := t.guard.pass(); err != nil {
		return nil, err
	}
	answer, err := t.Inner.RoundTrip(onlyJSON(request))
	var redirect *untrusted.RedirectError
	if errors.As(err, &redirect) {
		t.guard.Strike(Redirect, redirect.Error())
	}
	if err != nil {
		return nil, err
	}
	if err := t.guard.bound(request, answer); err != nil {
		_ = answer.Body.Close()
		return nil, err
	}
	return answer, nil
}
