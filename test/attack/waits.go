package attack

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/timeline"
)

// Wait is how long somebody waited, and since when.
type Wait struct {
	Began time.Time
	Took  time.Duration
}

// Waits are those of one neighbour, in their order.
type Waits []Wait

// Quantile is what a part of them took at most, as timeline.Quantile has it.
func (w Waits) Quantile(part float64) time.Duration {
	var took []time.Duration
	for _, wait := range w {
		took = append(took, wait.Took)
	}
	return timeline.Quantile(took, part)
}

// Median is the middle of them.
func (w Waits) Median() time.Duration { return w.Quantile(0.5) }

// Worst is the window of so many waits, one after the other, that has the highest median; all of them if they are fewer.
func (w Waits) Worst(window int) Waits {
	worst := w[:min(window, len(w))]
	for i := range w[len(worst):] {
		if next := w[i+1 : i+1+window]; next.Median() > worst.Median() {
			worst = next
		}
	}
	return worst
}

func (w Waits) String() string {
	return fmt.Sprintf("%d waits, median %s, p99 %s, longest %s", len(w), rounded(w.Median()), rounded(w.Quantile(0.99)), rounded(w.Quantile(1)))
}

func rounded(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// Neighbours keeps the waits of neighbours. Many may add at the same time.
type Neighbours struct {
	lock      sync.Mutex
	by        map[string]Waits
	unsampled []string
}

// Add adds a wait of a neighbour.
func (n *Neighbours) Add(name string, wait Wait) {
	n.lock.Lock()
	defer n.lock.Unlock()
	if n.by == nil {
		n.by = map[string]Waits{}
	}
	n.by[name] = append(n.by[name], wait)
}

// Miss adds a sample that failed before anybody knew how long the neighbour waits. It counts as no wait: it would be a short one.
func (n *Neighbours) Miss(name string, err error) {
	n.lock.Lock()
	defer n.lock.Unlock()
	n.unsampled = append(n.unsampled, fmt.Sprintf("%s: %v", name, err))
}

// Unsampled are the samples that failed, with the reason of each.
func (n *Neighbours) Unsampled() []string {
	n.lock.Lock()
	defer n.lock.Unlock()
	return slices.Clone(n.unsampled)
}

// Of are the waits of a neighbour.
func (n *Neighbours) Of(name string) Waits {
	n.lock.Lock()
	defer n.lock.Unlock()
	return slices.Clone(n.by[name])
}

// All are those of all neighbours, of one after the other.
func (n *Neighbours) All() (all Waits) {
	n.lock.Lock()
	defer n.lock.Unlock()
	for _, name := range slices.Sorted(maps.Keys(n.by)) {
		all = append(all, n.by[name]...)
	}
	return all
}

// Slowdown is how many times as long neighbours waited as before.
type Slowdown struct {
	// Median and P99 are of all waits of all neighbours.
	Median, P99 float64
	// Window is the median of the worst window of one neighbour, beside that neighbour's median before. A spike that the median of
	// everything hides is in it, if it lasts for half a window.
	Window float64
	// Name is that neighbour, In are the waits of that window.
	Name string
	In   Waits
}

// Slower compares neighbours with how they were before, by windows of so many waits. It is an error where a neighbour has fewer than
// a window: nothing is known of that one then.
func Slower(before, during *Neighbours, window int, names ...string) (Slowdown, error) {
	is := func(now, then time.Duration) float64 { return now.Seconds() / then.Seconds() }
	s := Slowdown{
		Median: is(during.All().Median(), before.All().Median()), P99: is(during.All().Quantile(0.99), before.All().Quantile(0.99)),
	}
	for _, name := range names {
		was, now := before.Of(name), during.Of(name)
		if len(was) < window || len(now) < window {
			return Slowdown{}, fmt.Errorf("%s has %d waits before and %d during the attack, and a window has %d", name, len(was), len(now), window)
		}
		if worst := now.Worst(window); s.In == nil || is(worst.Median(), was.Median()) > s.Window {
			s.Window, s.Name, s.In = is(worst.Median(), was.Median()), name, worst
		}
	}
	return s, nil
}

func (s Slowdown) String() string {
	first, last := s.In[0], s.In[len(s.In)-1]
	return fmt.Sprintf("%s waited longest from %s to %s: %s", s.Name, first.Began.Format(time.TimeOnly), last.Began.Add(last.Took).Format(time.TimeOnly), s.In)
}
