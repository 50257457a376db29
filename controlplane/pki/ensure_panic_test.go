package pki

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Secrets are read and written in goroutines of their own.
func TestAPanicIsAnErrorOfEnsure(t *testing.T) {
	faulty := func(inner client.WithWatch) client.Reader {
		return interceptor.NewClient(inner, interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				panic(new(int))
			},
		})
	}
	for name, test := range map[string]struct {
		faults func(*world)
		want   string
	}{
		"while the management cluster is read": {
			func(w *world) { w.store.Management.Cached = faulty(w.Management) },
			"read key material of cluster team/blue: reading a Secret panicked; the manager's log has the stack",
		},
		"while the host cluster is read": {
			func(w *world) { w.store.Host.Cached = faulty(w.Host) },
			"read key material of cluster team/blue: reading a Secret panicked; the manager's log has the stack",
		},
		"while a Secret is written": {
			func(w *world) { w.BeforeCreate = func(client.Object) { panic(new(int)) } },
			"writing a Secret panicked; the manager's log has the stack",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			test.faults(w)
			if _, err := w.store.Ensure(t.Context(), w.request()); err == nil || err.Error() != test.want {
				t.Errorf("the error is %v", err)
			}
		})
	}
}
