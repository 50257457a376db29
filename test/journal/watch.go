package journal

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/load"
)

// label is on every key of a journal, with the journal's name.
const label = "kok-test/journal"

// watch follows the keys of one journal as informers do. After a cut it goes on from the last event that it saw, so an event that it misses stays
// missed. It lists all keys only when an API server answers that this event is too old: a server that has just started does.
type watch struct {
	keys  typedcorev1.ConfigMapInterface
	label string

	lock           sync.Mutex
	opened, listed int
	// seen are the values that events and lists brought, by the names of their keys, problem is why it could not go on.
	seen    map[string]string
	problem error
	// from is where it goes on, a resource version.
	from string
}

func newWatch(ctx context.Context, o Options) (*watch, error) {
	config := rest.CopyConfig(o.Config)
	config.QPS, config.Timeout = -1, 0
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	w := &watch{keys: api.CoreV1().ConfigMaps(o.Namespace), label: label + "=" + o.Name, seen: map[string]string{}}
	now, err := w.keys.List(ctx, metav1.ListOptions{LabelSelector: w.label, Limit: 1})
	if err != nil {
		return nil, err
	}
	w.from = now.ResourceVersion
	return w, nil
}

// run notes what the watch brings until the context ends.
func (w *watch) run(ctx context.Context) {
	for {
		err := w.follow(ctx)
		if apierrors.IsResourceExpired(err) {
			err = w.list(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			w.note(err)
			return
		}
	}
}

// follow notes events until the watch cannot go on.
func (w *watch) follow(ctx context.Context) error {
	open := func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
		options.LabelSelector = w.label
		events, err := w.keys.Watch(ctx, options)
		if err == nil {
			w.lock.Lock()
			defer w.lock.Unlock()
			w.opened++
		}
		return events, err
	}
	retry, err := watchtools.NewRetryWatcherWithContext(ctx, w.from, &cache.ListWatch{WatchFuncWithContext: open})
	if err != nil {
		return err
	}
	defer retry.Stop()
	for event := range retry.ResultChan() {
		key, isKey := event.Object.(*corev1.ConfigMap)
		if !isKey {
			return fmt.Errorf("the watch brought %s: %w", event.Type, apierrors.FromObject(event.Object))
		}
		w.lock.Lock()
		w.seen[key.Name] = key.Data[value]
		w.lock.Unlock()
	}
	return fmt.Errorf("the watch ended for good")
}

// list notes all keys. It tries again until the context ends, because API servers may be away.
func (w *watch) list(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		limited, cancel := context.WithTimeout(ctx, load.Timeout)
		defer cancel()
		all, err := w.keys.List(limited, metav1.ListOptions{LabelSelector: w.label})
		if err != nil {
			return false, nil
		}
		w.lock.Lock()
		defer w.lock.Unlock()
		w.listed++
		w.from = all.ResourceVersion
		for i := range all.Items {
			w.seen[all.Items[i].Name] = all.Items[i].Data[value]
		}
		return true, nil
	})
}

func (w *watch) note(problem error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.problem == nil {
		w.problem = problem
	}
}

// endings is how often the watch had to be opened again, and how often keys were listed for that.
func (w *watch) endings() (opened, listed int) {
	w.lock.Lock()
	defer w.lock.Unlock()
	return max(0, w.opened-1), w.listed
}

// has reports whether an event brought a key with its value, or why none will.
func (w *watch) has(name, text string) (bool, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.seen[name] == text, w.problem
}
