package machine

import (
	"context"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// span is how many seconds are compared with as many before them.
	span = 10
	// steady is by how much the busy shares of two spans may differ where nothing begins or ends.
	steady = 0.05
)

// Settle waits until a measurement may begin: less than the given share of the processors was busy for a second, or what
// keeps them busy goes on unchanged, as tenants do that run beside it. It gives the last share, and gives up after the limit,
// which is no error.
func Settle(ctx context.Context, idle float64, limit time.Duration) (float64, error) {
	last, err := ReadCPU()
	if err != nil {
		return 0, err
	}
	var shares []float64
	err = wait.PollUntilContextTimeout(ctx, time.Second, limit, false, func(context.Context) (bool, error) {
		now, err := ReadCPU()
		if err != nil {
			return false, err
		}
		shares, last = append(shares, now.Share(last)), now
		return settled(shares, idle), nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		err = nil
	}
	return rest(shares, idle), err
}

// settled decides from the busy share of each second, the last one last.
func settled(shares []float64, idle float64) bool {
	n := len(shares)
	if n > 0 && shares[n-1] < idle {
		return true
	}
	return n >= 2*span && math.Abs(mean(shares[n-span:])-mean(shares[n-2*span:n-span])) < steady
}

// rest is the busy share at the end: of the last second when it was idle, else of the last span.
func rest(shares []float64, idle float64) float64 {
	n := len(shares)
	if n > 0 && shares[n-1] < idle {
		return shares[n-1]
	}
	return mean(shares[max(0, n-span):])
}

// mean is 0 of none.
func mean(values []float64) float64 {
	sum := 0.0
	for _, value := range values {
		sum += value
	}
	return sum / float64(max(1, len(values)))
}
