package panics_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/panics"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/panics/panicstest"
)

func TestRecover(t *testing.T) {
	errBroken := errors.New("broken")
	for name, test := range map[string]struct {
		work  func() error
		says  string
		count int
	}{
		"work that is done has no error":     {func() error { return nil }, "<nil>", 0},
		"work that fails keeps its error":    {func() error { return errBroken }, "broken", 0},
		"a panic has an error without value": {func() error { panic(new(int)) }, "step ports panicked; the manager's log has the stack", 1},
		"a panic with an error is one too":   {func() error { panic(errBroken) }, "step ports panicked; the manager's log has the stack", 1},
		"a fault in memory is a panic": {func() error {
			var none *struct{ name string }
			return errors.New(none.name)
		}, "step ports panicked; the manager's log has the stack", 1},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, heard := panicstest.Listen(t.Context())
			err := guarded(ctx, test.work)
			if got := fmt.Sprint(err); got != test.says {
				t.Errorf("the error is %q, want %q", got, test.says)
			}
			logged := heard.Errors()
			if len(logged) != test.count || heard.Count() != test.count {
				t.Fatalf("%d panics were counted and %d logged, want %d", heard.Count(), len(logged), test.count)
			}
			for _, line := range logged {
				if !strings.Contains(line, "panics_test.go") || !strings.Contains(line, "step ports") {
					t.Errorf("it logged %s", line)
				}
			}
		})
	}
}

func guarded(ctx context.Context, work func() error) (err error) {
	defer panics.Recover(ctx, "step ports", &err)
	return work()
}
