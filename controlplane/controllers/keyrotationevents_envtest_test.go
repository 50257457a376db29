//go:build envtest

package controllers

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/sample"
)

// tellsRotations settles with a program for each reconcile, and returns the Events about rotations, in their order.
func (tt *tenantTest) tellsRotations() []string {
	tt.t.Helper()
	var told []string
	for range manyRounds {
		tt.start(&gate{})
		if err := tt.reconcile(); err != nil {
			tt.t.Fatal(err)
		}
		told = append(told, tt.rotationEvents()...)
		wrote := len(tt.program.gate.takeWrites()) > 0
		worked, err := tt.host.work(tt.t.Context())
		if err != nil {
			tt.t.Fatal(err)
		}
		if !wrote && !worked {
			return told
		}
	}
	tt.t.Fatal("it does not come to rest")
	return nil
}

// rotationEvents are those about rotations since Events were last asked for: without what they say after the phase.
func (tt *tenantTest) rotationEvents() []string {
	tt.t.Helper()
	var told []string
	for _, text := range tt.events() {
		if strings.Contains(text, " KeyRotation") {
			phase, _, _ := strings.Cut(text, " of its rotation: ")
			told = append(told, phase)
		}
	}
	return told
}

// A program never tells again what another one told, at whatever write that one died.
func TestEachPhaseOfARotationIsToldOnce(t *testing.T) {
	t.Parallel()
	sample.OneIn(t, 4, oneKindOfKey)
	tt, data := beforeRotation(t), &tenantData{}
	tt.encrypts(data)
	tt.tellsRotations()
	expect := func(got []string, want ...string) {
		t.Helper()
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("want (-) and got (+):\n%s", diff)
		}
	}

	// Nothing is told of what was not stored.
	tt.prepareBothKeys()
	tt.start(&gate{refuse: func(int) bool { return true }})
	if err := tt.reconcile(); err == nil {
		t.Fatal("no write was refused")
	}
	expect(tt.rotationEvents())

	expect(tt.tellsRotations(),
		"Normal KeyRotationPrepared The encryption key is in the phase Prepared",
		"Normal KeyRotationPrepared The service account key is in the phase Prepared",
		"Normal KeyRotationStarted The encryption key is in the phase Trusting",
		"Normal KeyRotationStarted The service account key is in the phase Trusting",
	)
	tt.completeKeys("pod-tokens/" + tt.file())
	if err := tt.reconcile(); err != nil {
		t.Fatal(err)
	}
	if now := tt.rotationOf("encryption.rotation"); now.Phase != rotation.Dropping {
		t.Fatalf("it is %s", now.Phase)
	}
	expect(tt.rotationEvents(),
		"Normal KeyRotationCompleting The encryption key is in the phase Dropping",
		"Normal KeyRotationCompleting The service account key is in the phase Dropping",
	)
	data.set(map[string]string{"/registry/secrets/default/a": "k8s:enc:secretbox:v1:key1:…"})
	expect(tt.tellsRotations(),
		"Normal KeyRotationFinished The service account key is in the phase Over",
		"Normal KeyRotationPrepared The encryption key is in the phase Prepared",
		"Warning KeyRotationWentBack The encryption key is in the phase Using",
	)
	data.set(nil)
	expect(tt.tellsRotations(),
		"Normal KeyRotationCompleting The encryption key is in the phase Dropping",
		"Normal KeyRotationFinished The encryption key is in the phase Over",
	)
	tt.askForKeys(func(k *controlplanev1.KeyRotationSpec) { k.PrepareAfter = metav1.NewTime(time.Now().Add(time.Hour)) })
	expect(tt.tellsRotations())
}
