// Package timeline records when the stages of a control plane's creation were reached, prints runs
// beside each other, and gives medians.
package timeline

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Stage is something that happens once to each instance of a component.
type Stage string

// Stages of the whole control plane; their component is "".
const (
	Accepted      Stage = "objects accepted"
	OwnerSet      Stage = "owner set"
	PortsClaimed  Stage = "ports claimed"
	KeyMaterial   Stage = "key material"
	Kubeconfig    Stage = "kubeconfig"
	LeaseHeld     Stage = "lease held"
	ConfigMapMade Stage = "ConfigMap written"
	Initialized   Stage = "Initialized"
	Available     Stage = "Available"
)

// Stages of components.
const (
	Service      Stage = "Service"
	Certificates Stage = "certificates"
	Applied      Stage = "workload applied"
	Created      Stage = "pod created"
	Scheduled    Stage = "pod scheduled"
	VolumeBound  Stage = "volume bound"
	Started      Stage = "started"
	Answers      Stage = "answers its readiness path"
	PodReady     Stage = "pod ready"
	// Complete is once per component: every replica is ready, as its workload says.
	Complete Stage = "every replica ready"
)

type key struct {
	stage     Stage
	component string
}

// Timeline is the record of one creation. It may be used by several goroutines.
type Timeline struct {
	began time.Time

	lock    sync.Mutex
	marks   map[key]map[string]time.Duration
	changed chan struct{}
}

// Start begins a record: times count from now.
func Start() *Timeline {
	return &Timeline{began: time.Now(), marks: map[key]map[string]time.Duration{}, changed: make(chan struct{})}
}

// Mark notes that an instance of a component reached a stage. Only the first time counts.
func (t *Timeline) Mark(stage Stage, component, instance string) {
	at := time.Since(t.began)
	t.lock.Lock()
	defer t.lock.Unlock()
	k := key{stage, component}
	if t.marks[k] == nil {
		t.marks[k] = map[string]time.Duration{}
	}
	if _, known := t.marks[k][instance]; known {
		return
	}
	t.marks[k][instance] = at
	close(t.changed)
	t.changed = make(chan struct{})
}

// Times gives, in order, when the instances of the components reached a stage.
func (t *Timeline) Times(stage Stage, components ...string) []time.Duration {
	t.lock.Lock()
	defer t.lock.Unlock()
	var times []time.Duration
	for _, component := range components {
		for _, at := range t.marks[key{stage, component}] {
			times = append(times, at)
		}
	}
	slices.Sort(times)
	return times
}

// Since is the time since the record began.
func (t *Timeline) Since() time.Duration { return time.Since(t.began) }

// Wait returns when missing has nothing left to name; it is asked after every mark. An error names what was missing.
func (t *Timeline) Wait(ctx context.Context, missing func() string) error {
	for {
		t.lock.Lock()
		changed := t.changed
		t.lock.Unlock()
		what := missing()
		if what == "" {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("after %.1f s, while waiting for %s: %w", t.Since().Seconds(), what, context.Cause(ctx))
		}
	}
}

// Need is a number of instances that must reach a stage.
type Need struct {
	Stage     Stage
	Component string
	Count     int
}

// Missing names the first need that is not met; empty when all are.
func (t *Timeline) Missing(needs []Need) string {
	for _, need := range needs {
		if n := len(t.Times(need.Stage, need.Component)); n < need.Count {
			name := string(need.Stage)
			if need.Component != "" {
				name = need.Component + ": " + name
			}
			return fmt.Sprintf("%s (%d of %d)", name, n, need.Count)
		}
	}
	return ""
}
