package interrupt

import (
	"context"
	"os"
	"testing"
)

// Main is a TestMain whose tests have a context that Run ends.
func Main(m *testing.M, session *context.Context) {
	os.Exit(Run(func(ctx context.Context) int {
		*session = ctx
		return m.Run()
	}))
}

// Run runs tests that remove what they made when their context ends, and returns the exit status of the program.
func Run(run func(ctx context.Context) int) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	told := notify()
	go func() {
		<-told
		cancel()
	}()
	code := run(ctx)
	if ctx.Err() != nil {
		return status
	}
	return code
}
