package main

import (
	"context"
	"errors"
	"sync"
)

// stages puts the steps that run beside each other together. A stage begins when the one before it has ended.
func stages(steps []step) [][]step {
	var found [][]step
	for _, s := range steps {
		if last := len(found) - 1; s.beside && last >= 0 {
			found[last] = append(found[last], s)
			continue
		}
		found = append(found, []step{s})
	}
	return found
}

// runStage runs the steps of a stage beside each other, each with a title if there are several. In a list that ends with
// its first failure, the others are then interrupted.
func (l list) runStage(ctx context.Context, stage []step, run func(ctx context.Context, s step, title string) (result, error)) ([]result, error) {
	ctx, interrupt := context.WithCancel(ctx)
	defer interrupt()
	results, errs := make([]result, len(stage)), make([]error, len(stage))
	var running sync.WaitGroup
	for i, s := range stage {
		title := ""
		if len(stage) > 1 {
			title = s.name
		}
		running.Go(func() {
			results[i], errs[i] = run(ctx, s, title)
			if errs[i] != nil || l.failsFast && results[i].failed() {
				interrupt()
			}
		})
	}
	running.Wait()
	return results, errors.Join(errs...)
}
