package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/backends"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/internal/wire"
)

const (
	// firstRetry and longestRetry bound the pause between attempts to use the kubeconfig: kubelet
	// writes its certificate some seconds after the load balancer started.
	firstRetry   = time.Second
	longestRetry = time.Minute
	// saveInterval is how often a list that could not be written is written again: a full disk has room later.
	saveInterval = 30 * time.Second
)

// Watcher keeps a set of backends as the EndpointSlice default/kubernetes lists them.
type Watcher struct {
	options Options
	set     *backends.Set
	log     logr.Logger
	traffic wire.Counter

	lock sync.Mutex
	// known is the list that was last in the EndpointSlice.
	known []string
	// unreached is why no API server was reached, unusable what is wrong with its answer, unsaved why the file was not written.
	unreached string
	unusable  string
	unsaved   string
	changed   time.Time

	// saving is held while the file is written, and guards what it holds.
	saving sync.Mutex
	saved  []string
}

// New returns a Watcher. It sends no request before Run.
func New(options Options, set *backends.Set, log logr.Logger) *Watcher {
	return &Watcher{options: options, set: set, log: log}
}

// Status is the state of discovery.
type Status struct {
	// Changed is when the list was read or changed last; zero when it was not read in this run.
	Changed time.Time
	// Problem is what is wrong now; empty when nothing is.
	Problem string
	// BytesReceived and BytesSent are on the wire.
	BytesReceived, BytesSent uint64
}

// Status returns the state of discovery.
func (w *Watcher) Status() Status {
	w.lock.Lock()
	defer w.lock.Unlock()
	return Status{Changed: w.changed, Problem: cmp.Or(w.unreached, w.unusable, w.unsaved), BytesReceived: w.traffic.Received(), BytesSent: w.traffic.Sent()}
}

// Run watches until the context ends. Without a certificate of the node a watch fails, and is tried again.
func (w *Watcher) Run(ctx context.Context) {
	var saving sync.WaitGroup
	defer saving.Wait()
	saving.Go(func() { wait.UntilWithContext(ctx, func(context.Context) { w.save() }, saveInterval) })
	retry := firstRetry
	for ctx.Err() == nil {
		started := time.Now()
		if err := w.watch(ctx); err != nil && ctx.Err() == nil {
			w.note(err)
		}
		if time.Since(started) > longestRetry {
			retry = firstRetry
		}
		select {
		case <-ctx.Done():
		case <-time.After(retry + rand.N(retry/4)):
		}
		retry = min(2*retry, longestRetry)
	}
}

// watch lists and watches until the context ends, or until the identity is refused; the caller then reads it anew.
func (w *Watcher) watch(ctx context.Context) error {
	lister, err := w.options.lister(&w.traffic)
	if err != nil {
		return err
	}
	watching, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	reflector := cache.NewReflectorWithOptions(w.noting(lister, stop), &discoveryv1.EndpointSlice{}, (*store)(w), cache.ReflectorOptions{Name: "default/kubernetes"})
	reflector.RunWithContext(watching)
	if err := context.Cause(watching); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// noting lists and watches with lister, notes what goes wrong, and stops when the identity is refused.
func (w *Watcher) noting(lister *cache.ListWatch, stop context.CancelCauseFunc) *cache.ListWatch {
	check := func(err error) {
		if err == nil {
			w.reached()
			return
		}
		if errors.Is(err, context.Canceled) {
			return
		}
		w.note(fmt.Errorf("watch EndpointSlice %s/%s: %w", namespace, name, err))
		if apierrors.IsUnauthorized(err) {
			stop(err)
		}
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := lister.ListWithContext(ctx, options)
			check(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := lister.WatchWithContext(ctx, options)
			check(err)
			return events, err
		},
	}
}

// note keeps a problem for the status, and logs it once. An answer of an API server is noted as unusable, any other problem
// as unreached.
func (w *Watcher) note(err error) {
	w.lock.Lock()
	place := &w.unreached
	if errors.Is(err, backends.ErrEmpty) {
		place = &w.unusable
	}
	repeated := *place == err.Error()
	*place = err.Error()
	w.lock.Unlock()
	if !repeated {
		w.log.Error(err, "Cannot learn where the API servers are, keeping the last list")
	}
}

func (w *Watcher) reached() {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.unreached = ""
}

// accept makes the addresses in the EndpointSlice the members.
func (w *Watcher) accept(slice *discoveryv1.EndpointSlice) {
	addresses := Addresses(slice)
	slices.Sort(addresses)
	if err := w.set.Confirm(addresses); err != nil {
		w.note(fmt.Errorf("EndpointSlice %s/%s: %w", namespace, name, err))
		return
	}
	w.lock.Lock()
	same := slices.Equal(w.known, addresses)
	w.known, w.unreached, w.unusable = addresses, "", ""
	if !same || w.changed.IsZero() {
		w.changed = time.Now()
	}
	w.lock.Unlock()
	if !same {
		w.log.Info("The API servers are known", "Backends", addresses)
	}
	w.save()
}

// save keeps the list for the next start, unless the file has it already.
func (w *Watcher) save() {
	w.saving.Lock()
	defer w.saving.Unlock()
	w.lock.Lock()
	known, told := w.known, w.unsaved != ""
	w.lock.Unlock()
	if w.options.StateFile == "" || slices.Equal(known, w.saved) {
		return
	}
	problem := ""
	if err := Save(w.options.StateFile, known); err != nil {
		problem = err.Error()
		if !told {
			w.log.Error(err, "The next start does not know the list of API servers, trying again")
		}
	} else {
		w.saved = known
	}
	w.lock.Lock()
	defer w.lock.Unlock()
	w.unsaved = problem
}

// store receives the EndpointSlice from the reflector.
type store Watcher

func (s *store) take(object any) error {
	slice, ok := object.(*discoveryv1.EndpointSlice)
	if !ok {
		return fmt.Errorf("expected an EndpointSlice, got %T", object)
	}
	(*Watcher)(s).accept(slice)
	return nil
}

// Add takes a new EndpointSlice.
func (s *store) Add(object any) error { return s.take(object) }

// Update takes a changed EndpointSlice.
func (s *store) Update(object any) error { return s.take(object) }

// Delete does nothing: an API server answered, so there is one to list.
func (s *store) Delete(any) error {
	(*Watcher)(s).note(fmt.Errorf("EndpointSlice %s/%s was deleted: %w", namespace, name, backends.ErrEmpty))
	return nil
}

// Replace takes the only EndpointSlice of a list.
func (s *store) Replace(objects []any, _ string) error {
	if len(objects) == 0 {
		(*Watcher)(s).note(fmt.Errorf("EndpointSlice %s/%s does not exist: %w", namespace, name, backends.ErrEmpty))
	}
	for _, object := range objects {
		if err := s.take(object); err != nil {
			return err
		}
	}
	return nil
}

// Resync has nothing to do.
func (s *store) Resync() error { return nil }
