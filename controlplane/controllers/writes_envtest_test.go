//go:build envtest

package controllers

import (
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/writes"
)

// writeLog keeps the lines of a log that tell of a write to the management cluster.
type writeLog struct {
	lock  sync.Mutex
	lines []string
}

func (l *writeLog) hear(_, line string) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if strings.Contains(line, `"msg"="Wrote"`) && strings.Contains(line, `"cluster"="management"`) {
		l.lines = append(l.lines, line)
	}
}

// Who writes past the client that tells of it is found here: the API server counts what it took.
func TestEachWriteOfATenantsLifeIsOneLineThatNamesItsStep(t *testing.T) {
	tt := newTenantTest(t, small)
	log := &writeLog{}
	ctx := ctrl.LoggerInto(t.Context(), funcr.New(log.hear, funcr.Options{Verbosity: writes.Verbosity}))
	reconcile := func() { _, _ = tt.program.Reconcile(ctx, ctrl.Request{NamespacedName: tt.key}) }
	for range manyRounds {
		before := tt.program.gate.taken
		reconcile()
		worked, err := tt.host.work(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if tt.available() && !worked && tt.program.gate.taken == before {
			break
		}
	}
	tt.delete(tt.controlPlane())
	for range manyRounds {
		reconcile()
		if _, err := tt.host.work(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(kindsAndNames(tt.objects())) == 0 {
			break
		}
	}
	if taken := tt.program.gate.taken; taken < 30 || len(log.lines) != taken {
		t.Errorf("the API server took %d writes, and the log has %d lines", taken, len(log.lines))
	}
	for _, line := range log.lines {
		if !strings.Contains(line, `"step"=`) {
			t.Errorf("the line names no step: %s", line)
		}
		for _, secret := range []string{"BEGIN", "PRIVATE KEY", "certificate-authority-data"} {
			if strings.Contains(line, secret) {
				t.Errorf("the line has content: %s", line)
			}
		}
	}
}
