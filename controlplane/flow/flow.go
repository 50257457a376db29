// Package flow runs the steps of a reconcile in the order that a graph gives. The graph is checked
// when it is built. A step starts as soon as those before it are done; independent steps run
// together. No step waits for the world: it says what it waits for, and the next reconcile, woken by
// a watch, looks again. While a step cannot go on, those after it keep up what they made before.
package flow

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/panics"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/writes"
)

// Step is a node of the graph.
type Step[T any] struct {
	// Name identifies the step in conditions, logs and metrics.
	Name string
	// After are the names of the steps that must be done first.
	After []string
	// Run does the step's work for a target, and returns how far it came.
	Run func(ctx context.Context, target T) Result
	// Keep, if there, takes Run's place when a step before is not done. It keeps up what Run made before and adopts
	// no new rendering of a component. A step of no component may run as a whole. All steps before have ended, and may
	// have left nothing.
	Keep func(ctx context.Context, target T) Result
}

// Graph is a checked set of steps.
type Graph[T any] struct {
	steps   []Step[T]
	observe func(step string, took time.Duration)
}

// Outcome is how a step of a graph ended.
type Outcome struct {
	Name string
	// Ran is false when a step before it was not done.
	Ran bool
	// Result is that of Run or, in its place, of Keep. A panic is a failure.
	Result
}

// Done reports whether the step has nothing left to do. A step that was kept up is not done.
func (o Outcome) Done() bool { return o.Ran && o.Result.Done() }

// Waiting is what the step waits for; empty for one that did not run, because the step before it says that.
func (o Outcome) Waiting() string {
	if !o.Ran {
		return ""
	}
	return o.Result.Waiting()
}

// New checks the steps and returns their graph. It panics on a name that is used twice and on a
// dependency that is not listed before its step: both are mistakes in the program. observe is
// called with the duration of each step that ran.
func New[T any](observe func(step string, took time.Duration), steps ...Step[T]) *Graph[T] {
	known := map[string]bool{}
	for _, step := range steps {
		if known[step.Name] {
			panic(fmt.Sprintf("step %q is listed twice", step.Name))
		}
		for _, before := range step.After {
			if !known[before] {
				panic(fmt.Sprintf("step %q comes after %q, which is not listed before it", step.Name, before))
			}
		}
		known[step.Name] = true
	}
	return &Graph[T]{steps: steps, observe: observe}
}

// Run runs the steps for a target and returns their outcomes in the order of the graph.
func (g *Graph[T]) Run(ctx context.Context, target T) []Outcome {
	outcomes := make([]Outcome, len(g.steps))
	finished := make(map[string]chan struct{}, len(g.steps))
	for _, step := range g.steps {
		finished[step.Name] = make(chan struct{})
	}
	var running sync.WaitGroup
	for i, step := range g.steps {
		running.Go(func() {
			defer close(finished[step.Name])
			outcomes[i].Name = step.Name
			ready := true
			for _, before := range step.After {
				<-finished[before]
				ready = ready && outcomes[g.index(before)].Done()
			}
			if !ready {
				outcomes[i].Result = keepStep(ctx, step, target)
				return
			}
			outcomes[i].Ran = true
			start := time.Now()
			outcomes[i].Result = runStep(ctx, step, target)
			g.observe(step.Name, time.Since(start))
		})
	}
	running.Wait()
	return outcomes
}

func runStep[T any](ctx context.Context, step Step[T], target T) Result {
	return guarded(ctx, step.Name, func(ctx context.Context) Result { return step.Run(ctx, target) })
}

func keepStep[T any](ctx context.Context, step Step[T], target T) Result {
	if step.Keep == nil {
		return Done()
	}
	return guarded(ctx, step.Name, func(ctx context.Context) Result { return step.Keep(ctx, target) })
}

// guarded makes a panic of a step a failure of it.
func guarded(ctx context.Context, step string, run func(context.Context) Result) (result Result) {
	var panicked error
	defer func() {
		if panicked != nil {
			result = Failed(panicked)
		}
	}()
	defer panics.Recover(ctx, "step "+step, &panicked)
	return run(writes.Because(ctx, step))
}

func (g *Graph[T]) index(name string) int {
	return slices.IndexFunc(g.steps, func(s Step[T]) bool { return s.Name == name })
}
