package load

import (
	"context"
	"sync"
	"time"
)

// Pace calls a function so many times a second, with the number of the call, whether those before returned or not, until
// the context ends; those under way are waited for.
func Pace(ctx context.Context, rate int, do func(i int)) {
	var running sync.WaitGroup
	defer running.Wait()
	ticker := time.NewTicker(time.Second / time.Duration(rate))
	defer ticker.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		running.Go(func() { do(i) })
	}
}
