package load

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// written is the key of a ConfigMap's data that a write changes.
const written = "written"

// Requests are requests of one kind. Those that are not of a Load are reads.
type Requests struct {
	// kept is true when they go over connections that are kept.
	kept bool
	// own are the ConfigMaps that writes change, one for each request of a second: no write waits for another.
	own []string

	lock     sync.Mutex
	attempts int
	failures []Failure
	raw      []rawError
	// slowest request that was answered.
	slowest time.Duration
}

// Failure is a request that failed.
type Failure struct {
	// Began is when it was sent.
	Began Moment
	// Took is how long it took to fail.
	Took time.Duration
	// Write is true for a change, Kept for a request that went over a connection that is kept.
	Write, Kept bool
	Err         error
}

// ownObjects makes ConfigMaps that nobody else writes to, and returns their names.
func ownObjects(ctx context.Context, client kubernetes.Interface, count int) ([]string, error) {
	names := make([]string, count)
	for i := range names {
		made, err := client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "load-"},
		}, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("make a ConfigMap that is written to: %w", err)
		}
		names[i] = made.Name
	}
	return names, nil
}

// Run sends requests at a rate as Pace does.
func (r *Requests) Run(ctx context.Context, rate int, client func(i int) kubernetes.Interface) {
	Pace(ctx, rate, func(i int) { r.send(context.WithoutCancel(ctx), client(i), i) })
}

func (r *Requests) send(ctx context.Context, client kubernetes.Interface, i int) {
	object, write := r.writesTo(i)
	began := Now()
	var err error
	if write {
		err = change(ctx, client, object)
	} else {
		_, err = client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
	}
	took := began.Until(Now())
	r.lock.Lock()
	defer r.lock.Unlock()
	r.attempts++
	if err != nil {
		r.failures = append(r.failures, Failure{began, took, write, r.kept, err})
		return
	}
	r.slowest = max(r.slowest, took)
}

// writesTo is the object that the i-th request changes, if it is a write: every second one is, and also every second one
// of each connection.
func (r *Requests) writesTo(i int) (object string, write bool) {
	if len(r.own) == 0 {
		return "", false
	}
	place, round := i%len(r.own), i/len(r.own)
	return r.own[place], (place+round)%2 == 1
}

// change gives an object a value that it has not had.
func change(ctx context.Context, client kubernetes.Interface, name string) error {
	patch, err := json.Marshal(map[string]any{"data": map[string]string{written: strconv.FormatInt(int64(Now()), 10)}})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// Attempts is the number of requests that were answered or failed.
func (r *Requests) Attempts() int {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.attempts
}

// Failures are the requests that failed and were sent between two moments.
func (r *Requests) Failures(from, to Moment) []Failure {
	r.lock.Lock()
	defer r.lock.Unlock()
	var found []Failure
	for _, f := range r.failures {
		if f.Began >= from && f.Began < to {
			found = append(found, f)
		}
	}
	return found
}

// Slowest is how long the slowest request took that was answered.
func (r *Requests) Slowest() time.Duration {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.slowest
}
