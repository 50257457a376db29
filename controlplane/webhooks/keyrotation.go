package webhooks

import (
	"fmt"
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// shownNeed is how the condition KeysRotating names what needs a former key.
var shownNeed = regexp.MustCompile(`^(secret/[0-9a-f]{10}/[a-z0-9-]{1,63}/[a-z0-9.-]{1,253}|(pod-tokens|other-secrets|unseen)/[0-9a-f]{10})$`)

// validateKeyRotation refuses names that the condition never shows: who mistypes one would wait for nothing.
func validateKeyRotation(spec controlplanev1.KeyRotationSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, name := range spec.CompleteAnyway {
		if !shownNeed.MatchString(name) {
			errs = append(errs, field.Invalid(path.Child("completeAnyway").Index(i), name,
				"is not how the condition KeysRotating names what needs the former key: copy the name from there, such as secret/<key>/<namespace>/<name>"))
		}
	}
	return errs
}

// validateKeyRotationChange refuses a time that would ask for nothing. One that is still to come has asked for nothing yet: it may be
// mended.
func validateKeyRotationChange(before, after controlplanev1.KeyRotationSpec, now time.Time, path *field.Path) field.ErrorList {
	was, is := before.PrepareAfter, after.PrepareAfter
	if is.IsZero() || was.After(now) || !is.Before(&was) {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("prepareAfter"), is.UTC().Format(time.RFC3339),
		fmt.Sprintf("must not be before %s, when the last rotation was asked for, or it would ask for none: leave that time there, or set the present one to ask for another rotation", was.UTC().Format(time.RFC3339)))}
}
