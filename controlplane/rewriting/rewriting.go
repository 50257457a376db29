// Package rewriting has API servers write again what a former encryption key encrypted.
//
// Etcd shows what is left to do: each value that an API server encrypted begins with the name of its key, in plain text. API servers do the
// work: they store an update that changes nothing if the stored value is of another key than the one that writes now (GuaranteedUpdate of
// k8s.io/apiserver).
//
// For that the manager reads all values in etcd, also those that are not encrypted. It looks at how a value begins and drops it at once: it
// keeps, logs and tells no value. It keeps the etcd keys of the objects that are written next. API servers answer its updates with metadata
// alone, which it does not decode.
//
// A pass goes through all of etcd in the order of keys: it reads until it has a batch, has API servers write the batch, and reads on. The next
// run goes on where the last one ended. A pass leaves what it cannot write to the next pass.
//
// The manager records nothing of it. The proof is a pass through all of etcd that found no value of another key, as long as API servers write
// by the new key alone. A manager that starts anew looks again.
package rewriting

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
)

const (
	// batchSize is how many keys are in a batch.
	batchSize = 1000
	// pause is how long nothing is done after a pass that brought nothing forward: a pass reads all of etcd.
	pause = 10 * time.Minute
	// mostErrors is how many failures of a pass are told, mostUnserved how many resources that no API has.
	mostErrors   = 3
	mostUnserved = 10
)

// Etcd reads what API servers stored in an etcd cluster: etcd.EachValue for its members.
type Etcd func(ctx context.Context, from string, do func(key string, value []byte) (more bool)) (next string, err error)

// Rewriter has the objects of a tenant written again. It is not for use by several at a time.
type Rewriter struct {
	// File is what the name of the new key ends in; API servers write by that key alone.
	File string
	// Etcds are all etcd clusters that have objects of the tenant.
	Etcds []Etcd
	// Connect makes a configuration for clients of the tenant's API. They go through the guard of the tenant.
	Connect func() (*rest.Config, error)
	// Clock is the real one if nil.
	Clock clock.PassiveClock

	// pass is under way; nil between two passes.
	pass *pass
	// last is the last whole pass, and ended is when it ended; nil before the first one.
	last  *pass
	ended time.Time
	// rewritten is how many objects were written again.
	rewritten int
	done      bool
}

// Progress is how far it has come.
type Progress struct {
	// Done is true after a whole pass that found nothing of another key.
	Done bool
	// Left is how many values of another key the last whole pass left, by resource; nil before the first one ended.
	Left map[string]int
	// Unserved are the resources in Left that no API of the tenant's API servers has.
	Unserved map[string]bool
	// Looked is how many values the present pass has looked at, Rewritten how many objects were written again since the manager began.
	Looked, Rewritten int
}

// Run looks and has objects written until nothing is left, until it comes no further, or until the context ends. The next run goes on.
// The error is why it comes no further; nil for the end of the context.
func (r *Rewriter) Run(ctx context.Context) (Progress, error) {
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	err := r.run(ctx)
	if ctx.Err() != nil {
		err = nil
	}
	progress := Progress{Done: r.done, Rewritten: r.rewritten}
	if r.last != nil {
		progress.Left, progress.Unserved = r.last.left(), maps.Clone(r.last.unserved)
	}
	if r.pass != nil {
		progress.Looked = r.pass.looked
	}
	return progress, err
}

func (r *Rewriter) run(ctx context.Context) error {
	connect := sync.OnceValues(func() (*api, error) { return r.connect(ctx) })
	for !r.done {
		if r.pass == nil {
			if r.last != nil && !r.last.helped && r.Clock.Since(r.ended) < pause {
				return r.last.why()
			}
			r.pass = newPass()
		}
		if err := r.pass.look(ctx, r.Etcds, r.File); err != nil {
			return err
		}
		if err := r.write(ctx, connect); err != nil {
			return err
		}
		if r.pass.etcd == len(r.Etcds) {
			r.end()
		}
	}
	return nil
}

// write has API servers write a batch. Where the API does not tell what it serves, write leaves the batch to the next pass. The present pass
// goes on, because it counts how much is left.
func (r *Rewriter) write(ctx context.Context, connect func() (*api, error)) error {
	p := r.pass
	if len(p.batch) == 0 {
		return nil
	}
	tenant, err := connect()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		p.fail(err)
		p.batch = nil
		return nil
	}
	for len(p.batch) > 0 {
		outcome := tenant.write(ctx, p.batch[0])
		if ctx.Err() != nil {
			return ctx.Err() // The next run begins with this key.
		}
		p.record(resourceOf(p.batch[0]), outcome)
		p.batch = p.batch[1:]
		if outcome.byWrite {
			r.rewritten++
		}
		if isAway(outcome.err) {
			return outcome.err // No API server answers: the rest of the batch would fail, too.
		}
	}
	return nil
}

// isAway reports whether no API server answered.
func isAway(err error) bool {
	var failed *url.Error
	return errors.As(err, &failed)
}

// end ends a pass.
func (r *Rewriter) end() {
	before := r.last
	r.last, r.pass, r.ended = r.pass, nil, r.Clock.Now()
	r.done = r.last.found.total() == 0
	r.last.helped = helped(before, r.last)
}

// helped reports whether another pass is worth its cost at once. It is not after a pass that settled nothing. Nor is it when a pass found as
// much as the pass before, although that one had settled something: then writes do not help.
func helped(before, now *pass) bool {
	return now.settled.total() > 0 && (before == nil || before.settled.total() == 0 || now.found.total() < before.found.total())
}

// pass reads all that is in etcd once, and has API servers write what it finds.
type pass struct {
	// etcd is the index of the cluster that is read, next the key to go on from.
	etcd int
	next string
	// looked is how many values were looked at, found how many of them are of another key, settled how many of these the API wrote or says
	// are gone.
	looked         int
	found, settled count
	// batch are the keys of the objects that are written next, in their order.
	batch []string
	// unserved are resources that no API has.
	unserved map[string]bool
	failures []error
	helped   bool
}

func newPass() *pass { return &pass{found: count{}, settled: count{}, unserved: map[string]bool{}} }

// look reads on until it has a batch, or to the end of the last etcd.
func (p *pass) look(ctx context.Context, etcds []Etcd, file string) error {
	if len(etcds) == 0 {
		return errors.New("there is no etcd to look at")
	}
	for p.etcd < len(etcds) && len(p.batch) == 0 {
		next, err := etcds[p.etcd](ctx, p.next, func(key string, value []byte) bool {
			p.looked++
			if pki.IsOfAnotherKey(value, file) {
				p.found.add(resourceOf(key))
				p.batch = append(p.batch, key)
			}
			return len(p.batch) < batchSize
		})
		if p.next = next; err != nil {
			return err
		}
		if next == "" {
			p.etcd++
		}
	}
	return nil
}

// record notes what became of a key.
func (p *pass) record(resource string, outcome written) {
	if outcome.settled {
		p.settled.add(resource)
	}
	if outcome.unserved && len(p.unserved) < mostUnserved {
		p.unserved[resource] = true
	}
	p.fail(outcome.err)
}

// fail remembers the first failures, each once.
func (p *pass) fail(err error) {
	if err == nil || len(p.failures) >= mostErrors {
		return
	}
	if !slices.ContainsFunc(p.failures, func(known error) bool { return known.Error() == err.Error() }) {
		p.failures = append(p.failures, err)
	}
}

// left counts what is left of what the pass found: all of it, if the pass did not help.
func (p *pass) left() map[string]int {
	if !p.helped {
		return maps.Clone(p.found)
	}
	return p.found.without(p.settled)
}

// why tells why a pass did not help.
func (p *pass) why() error {
	failures := p.failures
	if len(p.unserved) > 0 {
		failures = append(slices.Clone(failures), fmt.Errorf("no API that API servers serve has %s", strings.Join(slices.Sorted(maps.Keys(p.unserved)), ", ")))
	}
	return errors.Join(failures...)
}
