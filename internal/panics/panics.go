// Package panics keeps a panic in the work for one object from ending the program, which works for other objects, too.
package panics

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// total has no labels, so that it is 0 before the first panic: Prometheus sees no increase in a series that begins
// with 1. The log says where the panic was.
var total = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "kok_panics_total",
	Help: "Panics of steps, background tasks and goroutines that were recovered.",
})

func init() { metrics.Registry.MustRegister(total) }

// Recover is deferred by the function that may panic. It logs a panic with its stack, counts it, and sets err. The
// error is always the same for one name: conditions have its text, and a change of a condition reconciles the object
// again at once. Recover does not see panics of other goroutines.
func Recover(ctx context.Context, name string, err *error) {
	value := recover()
	if value == nil {
		return
	}
	total.Inc()
	ctrl.LoggerFrom(ctx).Error(fmt.Errorf("panic: %v", value), "Recovered from a panic", "where", name, "stack", string(debug.Stack()))
	*err = fmt.Errorf("%s panicked; the manager's log has the stack", name)
}
