package webhooks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

func TestNamesOfWhatIsGivenUpAreThoseOfTheCondition(t *testing.T) {
	spec := controlplanev1.KeyRotationSpec{CompleteAnyway: []string{
		"secret/0123456789/kube-system/builder-token", "secret/0123456789/default/a.b", "pod-tokens/0123456789", "unseen/abcdef0123", "other-secrets/abcdef0123",
		"builder-token", "secret/default/builder-token", "pod-tokens", "pod-tokens/latest", "secret/0123456789/default/a b",
	}}
	errs := validateKeyRotation(spec, field.NewPath("spec", "keyRotation"))
	if len(errs) != 5 {
		t.Fatalf("it refuses %v", errs)
	}
	for i, err := range errs {
		if want := fmt.Sprintf("spec.keyRotation.completeAnyway[%d]", i+5); err.Field != want || !strings.Contains(err.Detail, "copy the name from there") {
			t.Errorf("it says %v, want it of %s", err, want)
		}
	}
}

func TestTheTimeOfARotationOnlyBecomesLater(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)
	at := func(after time.Duration) controlplanev1.KeyRotationSpec {
		return controlplanev1.KeyRotationSpec{PrepareAfter: metav1.NewTime(now.Add(after))}
	}
	for name, test := range map[string]struct {
		before, after controlplanev1.KeyRotationSpec
		says          string
	}{
		"it is asked for":       {after: at(0)},
		"it is asked for again": {before: at(-time.Hour), after: at(0)},
		"nothing changes":       {before: at(0), after: at(0)},
		"it is taken away":      {before: at(0)},
		"it becomes earlier":    {before: at(0), after: at(-time.Hour), says: "must not be before 2026-03-04T05:00:00Z"},
		"a mistake is mended":   {before: at(24 * time.Hour), after: at(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			errs := validateKeyRotationChange(test.before, test.after, now, field.NewPath("spec", "keyRotation"))
			expectSays(t, errs, test.says)
			if len(errs) > 0 && errs[0].Field != "spec.keyRotation.prepareAfter" {
				t.Errorf("it says it of %s", errs[0].Field)
			}
		})
	}
}
