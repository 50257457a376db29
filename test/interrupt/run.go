package interrupt

import "context"

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
