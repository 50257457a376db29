// Package backgroundtest runs what wakes reconciles from the background in a bubble of its own time.
package backgroundtest

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Woken counts reconciles that were asked for.
type Woken struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	count atomic.Int32
}

// Add asks for a reconcile.
func (w *Woken) Add(reconcile.Request) { w.count.Add(1) }

// Count is how many reconciles were asked for.
func (w *Woken) Count() int { return int(w.count.Load()) }

// InBubble runs a test in a bubble of its own time, with a source that began just before and ends after it: the bubble
// fails the test when a goroutine is left.
func InBubble[S source.Source](t *testing.T, begin func() S, test func(t *testing.T, s S, w *Woken)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s, w := begin(), &Woken{}
		if err := s.Start(ctx, w); err != nil {
			t.Fatal(err)
		}
		test(t, s, w)
	})
}

// After lets time pass, and everything that is due happen.
func After(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // In the bubble of synctest it takes no time.
	synctest.Wait()
}
