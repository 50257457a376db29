package hosttest

import (
	"testing"
	"testing/synctest"
)

// hostsByKind are those that can be cut off.
var hostsByKind = map[string]func(*testing.T) *Simulated{"a host with containerd": New, "a bare host": NewBare}

// OnEach runs a test on each kind of host.
func OnEach(t *testing.T, test func(*testing.T, func(*testing.T) *Simulated)) {
	for name, kind := range hostsByKind {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, kind) })
		})
	}
}
