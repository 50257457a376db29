package tenant

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/shape"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/timeline"
)

// healthyStage is when the control plane's own conditions say that every replica is ready.
const healthyStage timeline.Stage = "all conditions true"

// Tenant is one tenant that is created and watched.
type Tenant struct {
	Key   client.ObjectKey
	Shape shape.Shape

	cluster      *clusterv1.Cluster
	controlPlane *controlplanev1.KOKControlPlane
	watcher      *Watcher
	timeline     *timeline.Timeline

	// ctx ends what asks the tenant's processes and its API.
	ctx  context.Context
	stop context.CancelFunc

	lock sync.Mutex
	// asked are the pods and the API that are asked already.
	asked map[string]bool
	// waited is how long Available said what; waitsFor is what it says since waitsSince.
	waited     map[string]time.Duration
	waitsFor   string
	waitsSince time.Time
	restarts   map[string]Restart
	trouble    map[string]int
	// failedMounts counts events.
	failedMounts int
}

// Restart is a container that ended and was started again.
type Restart struct {
	Pod    string
	Count  int32
	Reason string
}

// Create applies a tenant and waits until it is usable and says so. With labels everything runs on host nodes that have these.
func (w *Watcher) Create(ctx context.Context, key client.ObjectKey, s shape.Shape, version string, labels map[string]string) (*Tenant, error) {
	t := &Tenant{
		Key: key, Shape: s, watcher: w, asked: map[string]bool{}, waited: map[string]time.Duration{},
		restarts: map[string]Restart{}, trouble: map[string]int{},
	}
	t.ctx, t.stop = context.WithCancel(ctx)
	defer t.stop()
	t.cluster, t.controlPlane = s.Objects(key, version, labels)
	t.timeline = timeline.Start()
	w.add(t)
	for _, object := range []client.Object{t.cluster, t.controlPlane} {
		if err := w.client.Create(ctx, object); err != nil {
			return t, fmt.Errorf("create %T %s: %w", object, key, err)
		}
	}
	t.timeline.Mark(timeline.Accepted, "", "")
	needs := t.needs()
	err := t.timeline.Wait(ctx, func() string {
		missing := t.timeline.Missing(needs)
		if missing == "" {
			return ""
		}
		return missing + ", while Available says: " + t.says()
	})
	if err != nil {
		return t, fmt.Errorf("create tenant %s: %w", key, err)
	}
	t.timeline.Mark(shape.Done, "", "")
	t.waits("")
	return t, nil
}

// Timeline is the record of its creation.
func (t *Tenant) Timeline() *timeline.Timeline { return t.timeline }

// needs are those of every control plane of the shape, and what the tenant says of itself.
func (t *Tenant) needs() []timeline.Need {
	needs := t.Shape.Usable()
	for _, component := range shape.Components() {
		needs = append(needs, timeline.Need{Stage: timeline.Complete, Component: component, Count: 1})
	}
	return append(needs,
		timeline.Need{Stage: timeline.Available, Count: 1},
		timeline.Need{Stage: healthyStage, Count: 1},
	)
}

// askAPI begins to ask the tenant's API at its endpoint.
func (t *Tenant) askAPI(kubeconfig []byte) {
	if !t.first("API") {
		return
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.note(fmt.Sprintf("read the tenant's kubeconfig: %v", err))
		return
	}
	go func() {
		if err := probe.API(t.ctx, config, t.timeline); err != nil && t.ctx.Err() == nil {
			t.note(err.Error())
		}
	}()
}

// askPod begins to ask a pod's readiness path as soon as the pod has a host.
func (t *Tenant) askPod(pod *corev1.Pod, component string) {
	if !t.first(pod.Name) {
		return
	}
	client, address, err := t.watcher.reach(pod.Spec.NodeName)
	if err != nil {
		t.note(err.Error())
		return
	}
	url, err := probe.URL(&pod.Spec.Containers[0], address)
	if err != nil {
		t.note(err.Error())
		return
	}
	go func() {
		if probe.UntilOK(t.ctx, client, url) == nil {
			t.timeline.Mark(timeline.Answers, component, pod.Name)
		}
	}()
}

// first tells whether nothing of that name was asked before.
func (t *Tenant) first(name string) bool {
	t.lock.Lock()
	defer t.lock.Unlock()
	known := t.asked[name]
	t.asked[name] = true
	return !known
}
