package lab

import (
	"context"
	"errors"
	"testing"
)

func TestWhatFailsIsUndone(t *testing.T) {
	failed, kept := errors.New("failed"), errors.New("kept")
	for name, test := range map[string]struct {
		do   func(context.Context) error
		undo error
		// want are the errors, of which one is what came of the undoing.
		want   []error
		undone bool
	}{
		"not what succeeds":                {do: func(context.Context) error { return nil }},
		"what fails":                       {do: func(context.Context) error { return failed }, want: []error{failed}, undone: true},
		"what is interrupted":              {do: context.Context.Err, want: []error{context.Canceled}, undone: true},
		"what fails and cannot be removed": {do: func(context.Context) error { return failed }, undo: kept, want: []error{failed, kept}, undone: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			interrupt()
			undone := false
			err := orUndo(ctx, test.do, func(ctx context.Context) error {
				undone = true
				if ctx.Err() != nil {
					t.Error("no time is left to undo it")
				}
				return test.undo
			})
			if undone != test.undone || (err == nil) != (len(test.want) == 0) {
				t.Errorf("undone: %v, and the error is %v", undone, err)
			}
			for _, want := range test.want {
				if !errors.Is(err, want) {
					t.Errorf("%v does not tell of %v", err, want)
				}
			}
		})
	}
}
