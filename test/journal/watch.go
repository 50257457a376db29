package journal

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// label is on every key of a journal, with the journal's name.
const label = "kok-test/journal"

// watch follows the keys of one journal. When it is cut it goes on from the last event that it saw; it never lists
// again, so what it misses is missed.
type watch struct {
	retry *watchtools.RetryWatcher

	lock   sync.Mutex
	opened int
	// seen are the values that events brought, by the names of their keys, problem is why it could not go on.
	seen    map[string]string
	problem error
}

func newWatch(ctx context.Context, o Options) (*watch, error) {
	config := rest.CopyConfig(o.Config)
	config.QPS, config.Timeout = -1, 0
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	keys := api.CoreV1().ConfigMaps(o.Namespace)
	now, err := keys.List(ctx, metav1.ListOptions{LabelSelector: label + "=" + o.Name, Limit: 1})
	if err != nil {
		return nil, err
	}
	w := &watch{seen: map[string]string{}}
	open := func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
		options.LabelSelector = label + "=" + o.Name
		events, err := keys.Watch(ctx, options)
		if err == nil {
			w.lock.Lock()
			defer w.lock.Unlock()
			w.opened++
		}
		return events, err
	}
	w.retry, err = watchtools.NewRetryWatcherWithContext(context.WithoutCancel(ctx), now.ResourceVersion, &cache.ListWatch{WatchFuncWithContext: open})
	return w, err
}

// run notes what the watch brings until the context ends.
func (w *watch) run(ctx context.Context) {
	defer w.retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case event, ok := <-w.retry.ResultChan():
			if !ok {
				w.note(fmt.Errorf("the watch ended for good"))
				return
			}
			if key, isKey := event.Object.(*corev1.ConfigMap); isKey {
				w.lock.Lock()
				w.seen[key.Name] = key.Data[value]
				w.lock.Unlock()
			} else {
				w.note(fmt.Errorf("the watch brought %s %v", event.Type, event.Object))
			}
		}
	}
}

func (w *watch) note(problem error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.problem == nil {
		w.problem = problem
	}
}

// endings is how often the watch had to be opened again.
func (w *watch) endings() int {
	w.lock.Lock()
	defer w.lock.Unlock()
	return max(0, w.opened-1)
}

// has reports whether an event brought a key with its value, or why none will.
func (w *watch) has(name, text string) (bool, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.seen[name] == text, w.problem
}
