// Package readiness measures for how long Nodes of a cluster are not ready.
package readiness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// Nodes are the Nodes of a cluster, as a watch tells of them.
type Nodes struct {
	clock clock.PassiveClock

	lock sync.Mutex
	// notReady are the names of Nodes that are not ready. since is when they ceased to be all ready.
	notReady map[string]bool
	since    time.Time
	// took is how long some Node was not ready before that.
	took time.Duration
}

// Watch begins to watch Nodes, and returns when it knows all that are there. It ends with the context.
func Watch(ctx context.Context, api kubernetes.Interface, c clock.PassiveClock) (*Nodes, error) {
	n := &Nodes{clock: c, notReady: map[string]bool{}}
	factory := informers.NewSharedInformerFactory(api, 0)
	handled, err := factory.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(node any) { n.see(node.(*corev1.Node)) },
		UpdateFunc: func(_, node any) { n.see(node.(*corev1.Node)) },
		DeleteFunc: func(node any) { n.forget(node) },
	})
	if err != nil {
		return nil, fmt.Errorf("watch Nodes: %w", err)
	}
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), handled.HasSynced) {
		return nil, errors.Join(errors.New("list Nodes: it took too long"), context.Cause(ctx))
	}
	return n, nil
}

// NotReady is how long at least one Node was not ready up to now. A Node no longer counts once it is deleted.
func (n *Nodes) NotReady() time.Duration {
	n.lock.Lock()
	defer n.lock.Unlock()
	if len(n.notReady) == 0 {
		return n.took
	}
	return n.took + n.clock.Since(n.since)
}

func (n *Nodes) see(node *corev1.Node) { n.note(node.Name, isReady(node)) }

func (n *Nodes) forget(node any) {
	name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(node)
	if err != nil {
		panic(err) // It is no object of an API.
	}
	n.note(name, true)
}

func (n *Nodes) note(name string, ready bool) {
	n.lock.Lock()
	defer n.lock.Unlock()
	wereReady := len(n.notReady) == 0
	if ready {
		delete(n.notReady, name)
	} else {
		n.notReady[name] = true
	}
	switch areReady := len(n.notReady) == 0; {
	case wereReady && !areReady:
		n.since = n.clock.Now()
	case areReady && !wereReady:
		n.took += n.clock.Since(n.since)
	}
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
