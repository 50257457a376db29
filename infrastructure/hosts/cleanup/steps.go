package cleanup

import (
	"context"
	"fmt"
)

// step is one step of a clean-up.
type step struct {
	name string
	do   func(context.Context) error
}

// take runs all steps in their order, also after one that failed, and joins their errors. When the context ends, it leaves
// out the rest, and that is an error, too.
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
