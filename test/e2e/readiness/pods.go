package readiness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Pods are those of components, as a watch tells of them.
type Pods struct {
	label string

	lock sync.Mutex
	// pods are those that are there. ready is how many each component had when the watch began; nil before.
	pods  map[types.UID]pod
	ready map[string]int
	// lacked is how many each component lacked at most.
	lacked map[string]Lack
}

type pod struct {
	name, component string
	ready           bool
}

// Lack is when a component had the fewest ready pods.
type Lack struct {
	// Count is how many were missing of those that were ready at first.
	Count int
	// Others says what the others were, for people.
	Others string
}

// WatchPods begins to watch the pods of a namespace that a selector chooses, and returns when it knows all that are there. A label of theirs
// names their component. It ends with the context.
func WatchPods(ctx context.Context, api kubernetes.Interface, namespace, selector, label string) (*Pods, error) {
	p := &Pods{label: label, pods: map[types.UID]pod{}, lacked: map[string]Lack{}}
	factory := informers.NewSharedInformerFactoryWithOptions(api, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = selector }))
	handled, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(found any) { p.see(found.(*corev1.Pod)) },
		UpdateFunc: func(before, found any) {
			if before, now := before.(*corev1.Pod), found.(*corev1.Pod); before.UID != now.UID {
				p.forget(before.UID) // One of the same name came while the watch was away.
			}
			p.see(found.(*corev1.Pod))
		},
		DeleteFunc: func(gone any) {
			if unknown, is := gone.(cache.DeletedFinalStateUnknown); is {
				gone = unknown.Obj
			}
			p.forget(gone.(*corev1.Pod).UID)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), handled.HasSynced) {
		return nil, errors.Join(errors.New("list pods: it took too long"), context.Cause(ctx))
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	p.ready = p.count()
	return p, nil
}

// Lacked is how many ready pods a component lacked at once, and when it lacked the most.
func (p *Pods) Lacked() map[string]Lack {
	p.lock.Lock()
	defer p.lock.Unlock()
	return maps.Clone(p.lacked)
}

// see notes a pod. One that is being deleted is as good as gone.
func (p *Pods) see(found *corev1.Pod) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.pods[found.UID] = pod{found.Name, found.Labels[p.label], found.DeletionTimestamp == nil && podIsReady(found)}
	p.note()
}

func (p *Pods) forget(uid types.UID) {
	p.lock.Lock()
	defer p.lock.Unlock()
	delete(p.pods, uid)
	p.note()
}

// count is how many pods of each component are ready.
func (p *Pods) count() map[string]int {
	ready := map[string]int{}
	for _, one := range p.pods {
		if one.ready {
			ready[one.component]++
		}
	}
	return ready
}

func (p *Pods) note() {
	now := p.count()
	for component, at := range p.ready {
		if lack := at - now[component]; lack > p.lacked[component].Count {
			p.lacked[component] = Lack{lack, p.describe(component)}
		}
	}
}

func (p *Pods) describe(component string) string {
	var all []string
	for _, one := range p.pods {
		if one.component == component {
			all = append(all, fmt.Sprintf("%s ready: %t", one.name, one.ready))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func podIsReady(found *corev1.Pod) bool {
	return slices.ContainsFunc(found.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
