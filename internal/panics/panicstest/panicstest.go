// Package panicstest shows a test what was said of panics.
package panicstest

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr/funcr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Heard is what was said of panics since a test began to listen.
type Heard struct {
	before int

	lock   sync.Mutex
	errors []string
}

// Listen begins to listen. What is logged as an error by the logger of the context that it returns is kept in Heard.
// Panics are counted in the whole program: the metric has no context.
func Listen(ctx context.Context) (context.Context, *Heard) {
	h := &Heard{before: total()}
	return ctrl.LoggerInto(ctx, funcr.New(h.hear, funcr.Options{})), h
}

func (h *Heard) hear(_, line string) {
	if strings.HasPrefix(line, `"level"`) { // Errors have no level.
		return
	}
	h.lock.Lock()
	defer h.lock.Unlock()
	h.errors = append(h.errors, line)
}

// Errors are the lines that were logged as errors.
func (h *Heard) Errors() []string {
	h.lock.Lock()
	defer h.lock.Unlock()
	return slices.Clone(h.errors)
}

// Count is the number of panics.
func (h *Heard) Count() int { return total() - h.before }

// total is what the metric says. It is zero when the program does not have it.
func total() int {
	families, err := metrics.Registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, family := range families {
		if family.GetName() == "kok_panics_total" {
			return int(family.GetMetric()[0].GetCounter().GetValue())
		}
	}
	return 0
}
