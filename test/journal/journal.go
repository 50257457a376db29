// Package journal writes down, through an API, what must not be lost: keys, each once, at a steady pace, while something
// happens to the API servers or to etcd behind them. In the end every write that was acknowledged has to be there with its
// value, and a watch that was open all the time has to have brought it.
//
// A failed request is one for which client-go, with its built-in handling of Retry-After and no other retry, returns an
// error. What client-go put right by itself is counted apart, as raw answers.
package journal

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/load"
)

// requestTimeout is that of one write; what takes longer failed.
const requestTimeout = 10 * time.Second

// value is the key of a ConfigMap's data that is compared.
const value = "value"

// Options say where the journal is written.
type Options struct {
	// Name begins the name of each key: journals of one namespace have names of their own.
	Name string
	// Config is the way to the API.
	Config *rest.Config
	// Namespace exists and may be written to.
	Namespace string
	// Rate is the number of writes a second.
	Rate int
}

// Journal writes until it is stopped.
type Journal struct {
	options Options
	api     kubernetes.Interface
	watch   *watch
	stop    context.CancelFunc
	running sync.WaitGroup

	lock sync.Mutex
	// acknowledged are the values by the names of their keys.
	acknowledged map[string]string
	failed       []string
	answers      map[int]int
	slowest      time.Duration
}

// Start begins to write. It returns once the watch is open.
func Start(ctx context.Context, o Options) (*Journal, error) {
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	j := &Journal{options: o, stop: stop, acknowledged: map[string]string{}, answers: map[int]int{}}
	config := rest.CopyConfig(o.Config)
	config.QPS, config.Timeout = -1, requestTimeout
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{next, j} })
	var err error
	if j.api, err = kubernetes.NewForConfig(config); err != nil {
		stop()
		return nil, fmt.Errorf("make a client for the journal %s: %w", o.Name, err)
	}
	if j.watch, err = newWatch(ctx, o); err != nil {
		stop()
		return nil, fmt.Errorf("open the watch of the journal %s: %w", o.Name, err)
	}
	j.running.Go(func() { j.watch.run(working) })
	j.running.Go(func() {
		load.Pace(working, o.Rate, func(i int) { j.put(context.WithoutCancel(working), fmt.Sprintf("%s-%d", o.Name, i)) })
	})
	return j, nil
}

func (j *Journal) put(ctx context.Context, name string) {
	text := rand.Text()
	began := time.Now()
	_, err := j.api.CoreV1().ConfigMaps(j.options.Namespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: j.options.Name}}, Data: map[string]string{value: text},
	}, metav1.CreateOptions{})
	took := time.Since(began)
	j.lock.Lock()
	defer j.lock.Unlock()
	if err != nil {
		j.failed = append(j.failed, fmt.Sprintf("%s: %s failed after %s: %v", began.UTC().Format("15:04:05.000"), name, took.Round(time.Millisecond), err))
		return
	}
	j.acknowledged[name] = text
	j.slowest = max(j.slowest, took)
}

// Stop ends the writes, and waits for those under way.
func (j *Journal) Stop() {
	j.stop()
	j.running.Wait()
}

// Result is what came of the writes until now.
type Result struct {
	// Acknowledged is how many writes succeeded, Failed what came of each of the others.
	Acknowledged int
	Failed       []string
	// Answers counts raw HTTP answers by status, those that client-go tried again included; 0 is for connections that
	// broke.
	Answers map[int]int
	// Slowest is how long the slowest write took that was acknowledged.
	Slowest time.Duration
	// WatchEnds is how often the watch ended and was opened again.
	WatchEnds int
}

// String sums it up.
func (r *Result) String() string {
	return fmt.Sprintf("%d writes acknowledged, %d failed, slowest %s, raw answers by status %v, the watch was opened again %d times",
		r.Acknowledged, len(r.Failed), r.Slowest.Round(time.Millisecond), r.Answers, r.WatchEnds)
}

// Result is what came of the writes until now.
func (j *Journal) Result() *Result {
	ends := j.watch.endings()
	j.lock.Lock()
	defer j.lock.Unlock()
	return &Result{len(j.acknowledged), slices.Clone(j.failed), maps.Clone(j.answers), j.slowest, ends}
}

// counting counts raw answers.
type counting struct {
	next http.RoundTripper
	j    *Journal
}

// RoundTrip implements http.RoundTripper.
func (t counting) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	status := 0
	if err == nil {
		status = response.StatusCode
	}
	t.j.lock.Lock()
	defer t.j.lock.Unlock()
	t.j.answers[status]++
	return response, err
}
