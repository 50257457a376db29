package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// watcher is one reflector, as every informer has one.
type watcher struct {
	client kubernetes.Interface

	lock sync.Mutex
	// seen are the changes that it brought.
	seen []sight
	// ends are when a watch ended.
	ends []Moment
}

// sight is one change: when it was made and when it was seen.
type sight struct{ made, seen Moment }

func newWatcher(configuration func() (*rest.Config, error)) (*watcher, error) {
	config, err := configuration()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &watcher{client: client}, nil
}

func (w *watcher) run(ctx context.Context) {
	lister := cache.NewListWatchFromClient(w.client.CoreV1().RESTClient(), "configmaps", metav1.NamespaceDefault, fields.OneTermEqualSelector("metadata.name", object))
	cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc: lister.ListWithContextFunc,
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := lister.WatchFuncWithContext(ctx, options)
			if err != nil {
				return nil, err
			}
			return w.noting(events), nil
		},
	}, &corev1.ConfigMap{}, (*store)(w), cache.ReflectorOptions{Name: "load"}).RunWithContext(ctx)
}

// noting notes when a watch ends that was not stopped.
func (w *watcher) noting(events watch.Interface) watch.Interface {
	out := make(chan watch.Event)
	noted := watch.NewProxyWatcher(out)
	go func() {
		defer close(out)
		defer events.Stop()
		for {
			select {
			case <-noted.StopChan():
				return
			case event, open := <-events.ResultChan():
				if !open {
					w.lock.Lock()
					w.ends = append(w.ends, Now())
					w.lock.Unlock()
					return
				}
				select {
				case out <- event:
				case <-noted.StopChan():
					return
				}
			}
		}
	}()
	return noted
}

// store receives what a reflector brings.
type store watcher

func (s *store) take(changed any) error {
	seen := Now()
	configMap, ok := changed.(*corev1.ConfigMap)
	if !ok {
		return fmt.Errorf("expected a ConfigMap, got %T", changed)
	}
	made, ok := beatOf(configMap)
	if !ok {
		return nil
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.seen = append(s.seen, sight{made, seen})
	return nil
}

// Add takes a new object.
func (s *store) Add(object any) error { return s.take(object) }

// Update takes a changed object.
func (s *store) Update(object any) error { return s.take(object) }

// Delete has nothing to do.
func (s *store) Delete(any) error { return nil }

// Replace takes what was listed.
func (s *store) Replace(objects []any, _ string) error {
	for _, o := range objects {
		if err := s.take(o); err != nil {
			return err
		}
	}
	return nil
}

// Resync has nothing to do.
func (s *store) Resync() error { return nil }

// away is how long after a moment the watch brought a change that was made after it.
func (w *watcher) away(since Moment) (time.Duration, bool) {
	w.lock.Lock()
	defer w.lock.Unlock()
	i := slices.IndexFunc(w.seen, func(s sight) bool { return s.made >= since })
	if i < 0 {
		return 0, false
	}
	return since.Until(w.seen[i].seen), true
}

func (w *watcher) ended(from, to Moment) int {
	w.lock.Lock()
	defer w.lock.Unlock()
	count := 0
	for _, end := range w.ends {
		if end >= from && end < to {
			count++
		}
	}
	return count
}

// Back waits until every watch has brought a change that was made after a moment, and returns how long after that moment
// the last of them did. When the context ends first, that is the time until then, and an error.
func (l *Load) Back(ctx context.Context, since Moment) (time.Duration, error) {
	var longest time.Duration
	missing := 0
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
		longest, missing = 0, 0
		for _, w := range l.watches {
			away, back := w.away(since)
			if !back {
				missing++
			}
			longest = max(longest, away)
		}
		return missing == 0, nil
	})
	if err != nil {
		return since.Until(Now()), errors.Join(fmt.Errorf("%d of %d watches bring no change", missing, len(l.watches)), context.Cause(ctx))
	}
	return longest, nil
}

// WatchEnds is how many watches ended between two moments.
func (l *Load) WatchEnds(from, to Moment) int {
	count := 0
	for _, w := range l.watches {
		count += w.ended(from, to)
	}
	return count
}
