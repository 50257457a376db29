package controllers

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Whoever reads a bootstrap token can join the tenant with it: it is in the two Secrets that need it, and nowhere else.
func TestATokenIsInNoLogEventOrStatus(t *testing.T) {
	f := newFixture(t, ready()...)
	recorder := events.NewFakeRecorder(100)
	f.reconciler.recorder = recorder
	var told strings.Builder
	log := funcr.New(func(prefix, arguments string) { fmt.Fprintln(&told, prefix, arguments) }, funcr.Options{Verbosity: 10})
	reconcile := func() {
		t.Helper()
		for range 2 { // The first one only writes the Paused condition.
			if _, err := f.reconciler.Reconcile(ctrl.LoggerInto(t.Context(), log), ctrl.Request{NamespacedName: key}); err != nil {
				t.Fatal(err)
			}
		}
		config, err := json.Marshal(f.config())
		if err != nil {
			t.Fatal(err)
		}
		told.Write(config)
	}
	reconcile()
	token := f.tenantTokens()[0]
	f.clock.Step(8 * time.Minute)
	reconcile()
	f.join()
	reconcile()
	close(recorder.Events)
	for event := range recorder.Events {
		told.WriteString(event)
	}
	if !strings.Contains(told.String(), "was renewed") || !strings.Contains(told.String(), "was revoked") {
		t.Errorf("the life of the token is not told: %s", &told)
	}
	if strings.Contains(told.String(), string(token.Data["token-secret"])) {
		t.Errorf("the token is told: %s", &told)
	}
}
