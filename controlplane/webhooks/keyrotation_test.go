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
		"pods/0123456789/default/Deployment/web", "pods/0123456789/default/Pod/a.b", "node/0123456789/w1.example", "other-pods/0123456789", "other-nodes/0123456789",
		"builder-token", "secret/default/builder-token", "pod-tokens", "pod-tokens/latest", "secret/0123456789/default/a b", "pods/0123456789/web", "node/w1", "node/0123456789/<name>", "other-nodes",
	}}
	refusesFrom(t, 10, spec, "copy the name from there")
}

// refusesFrom fails unless all names from this index on are refused, and those before are not.
func refusesFrom(t *testing.T, first int, spec controlplanev1.KeyRotationSpec, says string) {
	t.Helper()
	errs := validateKeyRotation(spec, controlplanev1.EncryptionAtRestSpec{}, field.NewPath("spec", "keyRotation"))
	if len(errs) != len(spec.CompleteAnyway)-first {
		t.Fatalf("it refuses %v", errs)
	}
	for i, err := range errs {
		if want := fmt.Sprintf("spec.keyRotation.completeAnyway[%d]", first+i); err.Field != want || !strings.Contains(err.Detail, says) {
			t.Errorf("it says %v, want it of %s", err, want)
		}
	}
}

func TestWhatWouldBeLostIsNotGivenUp(t *testing.T) {
	spec := controlplanev1.KeyRotationSpec{CompleteAnyway: []string{"pod-tokens/0123456789", "objects/0123456789/secrets", "objects/0123456789"}}
	refusesFrom(t, 1, spec, "cannot be given up")
}

func TestAnEncryptionKeyRotatesOnlyWhereItEncrypts(t *testing.T) {
	both := controlplanev1.KeyRotationSpec{Kinds: []controlplanev1.KeyKind{controlplanev1.ServiceAccountKeyKind, controlplanev1.EncryptionKeyKind}}
	for mode, want := range map[controlplanev1.EncryptionMode]string{
		"": "", controlplanev1.EncryptionSecretBox: "", controlplanev1.EncryptionNone: "spec.keyRotation.kinds[1]",
	} {
		errs := validateKeyRotation(both, controlplanev1.EncryptionAtRestSpec{Mode: mode}, field.NewPath("spec", "keyRotation"))
		if (len(errs) > 0) != (want != "") || len(errs) > 0 && (errs[0].Field != want || !strings.Contains(errs[0].Detail, "take EncryptionKey out")) {
			t.Errorf("mode %q: it says %v, want it of %q", mode, errs, want)
		}
	}
	both.Kinds = both.Kinds[:1]
	if errs := validateKeyRotation(both, controlplanev1.EncryptionAtRestSpec{Mode: controlplanev1.EncryptionNone}, field.NewPath("spec", "keyRotation")); len(errs) > 0 {
		t.Errorf("another kind is refused: %v", errs)
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
