package hosttest

import (
	"testing"
	"testing/synctest"
)

// kinds are the kinds of hosts that OnEach knows.
var kinds = map[string]func(*testing.T) *Simulated{"a host with containerd": New, "a bare host": NewBare}

// OnEach runs a test on each kind of host.
func OnEach(t *testing.T, test func(*testing.T, func(*testing.T) *Simulated)) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, kind) })
		})
	}
}
