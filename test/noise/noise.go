// Package noise is the load of a tenant that its neighbours must not notice, and the reads by which they would. The load runs in
// a process of its own: what it takes of the processors is not taken from whoever measures.
package noise

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/load"
)

const (
	// patience is how long one write may take, underWay how many may be under way at once.
	patience = 10 * time.Second
	underWay = 100
	// again is the time between two tries to open a watch.
	again = 100 * time.Millisecond
)

// Settings say what a tenant is burdened with.
type Settings struct {
	// Servers are the addresses of its API servers, which share the load; TLS is what clients of all of them need.
	Servers []string
	TLS     rest.TLSClientConfig
	// Namespace is where ConfigMaps are written to and watched, Objects how many there are.
	Namespace string
	Objects   int
	// Writes is the number of changes a second, of one ConfigMap after the other.
	Writes int
	// Watches is the number of watches, each of one ConfigMap. Half of them share a connection for each API server, as far
	// as HTTP/2 lets them, and half have a connection each.
	Watches int
}

// Report counts what was done since the start.
type Report struct {
	// Due are the writes that the rate asks for until now. Written were acknowledged, Failed were not. The others are under way or were
	// not made: too many were under way, or this program got too little time of the processors.
	Due, Written, Failed int
	// Held is how many watches are open now and have brought something.
	Held int
	// Events are what watches brought, Ended how many watches ended by themselves.
	Events, Ended int
	// Problem is the last one of a write or a watch.
	Problem string
}

// noise is load that runs.
type noise struct {
	settings *Settings
	began    time.Time
	slots    chan struct{}

	written, failed, held, events, ended atomic.Int64
	problem                              atomic.Value
}

// make loads the tenant until the context ends.
func (s *Settings) make(ctx context.Context, started func(*noise)) error {
	shared := make([]corev1client.ConfigMapInterface, len(s.Servers))
	for i := range shared {
		var err error
		if shared[i], err = s.client(i); err != nil {
			return err
		}
	}
	if err := s.prepare(ctx, shared[0]); err != nil {
		return err
	}
	n := &noise{settings: s, began: time.Now(), slots: make(chan struct{}, underWay)}
	started(n)
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for i := range s.Watches {
		api := shared[i%len(shared)]
		if i%2 == 1 {
			var err error
			if api, err = s.client(i); err != nil {
				return err
			}
		}
		running.Go(func() { n.watch(ctx, api, s.object(i)) })
	}
	load.Pace(ctx, s.Writes, func(i int) { n.write(ctx, shared[i%len(shared)], i) })
	return nil
}

// client has connections of its own to an API server.
func (s *Settings) client(i int) (corev1client.ConfigMapInterface, error) {
	config := &rest.Config{
		Host: "https://" + s.Servers[i%len(s.Servers)], TLSClientConfig: s.TLS, QPS: -1,
		// client-go shares connections among clients without a function for proxies.
		Proxy:         func(*http.Request) (*url.URL, error) { return nil, nil },
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf, AcceptContentTypes: runtime.ContentTypeProtobuf},
	}
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", config.Host, err)
	}
	return client.ConfigMaps(s.Namespace), nil
}

func (s *Settings) object(i int) string { return fmt.Sprintf("noise-%d", i%s.Objects) }

func (s *Settings) prepare(ctx context.Context, api corev1client.ConfigMapInterface) error {
	for i := range s.Objects {
		_, err := api.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: s.object(i)}}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("make a ConfigMap that is written to: %w", err)
		}
	}
	return nil
}

// write gives a ConfigMap a value of one KiB that it has not had.
func (n *noise) write(ctx context.Context, api corev1client.ConfigMapInterface, i int) {
	select {
	case n.slots <- struct{}{}:
		defer func() { <-n.slots }()
	default:
		return
	}
	working, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	value := fmt.Appendf(nil, `{"data":{"written":"%01024d"}}`, time.Now().UnixNano())
	if _, err := api.Patch(working, n.settings.object(i), types.MergePatchType, value, metav1.PatchOptions{}); err != nil {
		n.failed.Add(1)
		n.note("write", err)
		return
	}
	n.written.Add(1)
}

// watch keeps a watch open until the context ends.
func (n *noise) watch(ctx context.Context, api corev1client.ConfigMapInterface, object string) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		events, err := api.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", object).String(), ResourceVersion: "0"})
		if err != nil {
			n.note("open a watch", err)
			return
		}
		defer events.Stop()
		n.follow(ctx, events.ResultChan())
	}, again)
}

// follow counts what a watch brings until it ends.
func (n *noise) follow(ctx context.Context, events <-chan watch.Event) {
	first := true
	for event := range events {
		if event.Type == watch.Error {
			n.note("watch", apierrors.FromObject(event.Object))
			break
		}
		if first {
			n.held.Add(1)
			defer n.held.Add(-1)
			first = false
		}
		n.events.Add(1)
	}
	if ctx.Err() == nil {
		n.ended.Add(1)
	}
}

func (n *noise) note(what string, err error) {
	if !errors.Is(err, context.Canceled) {
		n.problem.Store(what + ": " + err.Error())
	}
}

func (n *noise) report() Report {
	problem, _ := n.problem.Load().(string)
	return Report{
		Due: int(time.Since(n.began).Seconds() * float64(n.settings.Writes)), Written: int(n.written.Load()), Failed: int(n.failed.Load()),
		Held: int(n.held.Load()), Events: int(n.events.Load()), Ended: int(n.ended.Load()), Problem: problem,
	}
}
