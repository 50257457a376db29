package hosts

import (
	"context"
	"fmt"
)

// step is one of those that clean a host.
type step struct {
	name string
	do   func(context.Context) error
}

// take takes the steps in their order, also those after one that fails, and returns what failed. The end of the context is
// a failure: steps are left then.
func take(ctx context.Context, steps []step) (problems []error) {
	for _, step := range steps {
		if err := step.do(ctx); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", step.name, err))
		}
		if err := ctx.Err(); err != nil {
			return append(problems, err)
		}
	}
	return problems
}
