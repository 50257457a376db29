package webhooks

import (
	"fmt"
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// shownNeed matches the names in the condition KeysRotating that a person can give up, lostNeed those that nobody can give up.
var (
	shownNeed = regexp.MustCompile(`^(secret/[0-9a-f]{10}/[a-z0-9-]{1,63}/[a-z0-9.-]{1,253}` +
		`|pods/[0-9a-f]{10}/[a-z0-9-]{1,63}/[A-Za-z0-9]+/[a-z0-9.-]{1,253}|node/[0-9a-f]{10}/[a-z0-9.-]{1,253}` +
		`|(pod-tokens|other-secrets|other-pods|other-nodes|unseen)/[0-9a-f]{10})$`)
	lostNeed = regexp.MustCompile(`^objects/`)
)

// validateKeyRotation refuses names that the condition never shows: a person who mistypes a name would wait in vain. It also refuses a
// rotation of the encryption key where nothing is encrypted.
func validateKeyRotation(spec controlplanev1.KeyRotationSpec, encryption controlplanev1.EncryptionAtRestSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, kind := range spec.Kinds {
		if kind == controlplanev1.EncryptionKeyKind && encryption.Mode == controlplanev1.EncryptionNone {
			errs = append(errs, field.Invalid(path.Child("kinds").Index(i), kind,
				fmt.Sprintf("encryptionAtRest.mode is %s, so that no key encrypts anything: take %s out of the list", controlplanev1.EncryptionNone, kind)))
		}
	}
	for i, name := range spec.CompleteAnyway {
		switch {
		case lostNeed.MatchString(name):
			errs = append(errs, field.Invalid(path.Child("completeAnyway").Index(i), name,
				"cannot be given up, for nobody could read these objects again: wait until they are written by the new key, or see what the condition KeysRotating says of them"))
		case !shownNeed.MatchString(name):
			errs = append(errs, field.Invalid(path.Child("completeAnyway").Index(i), name,
				"is not how the condition KeysRotating names what needs the former key: copy the name from there, such as secret/<key>/<namespace>/<name>"))
		}
	}
	return errs
}

// validateKeyRotationChange refuses a prepareAfter that would ask for nothing. A time that is still to come has asked for nothing yet, and may
// become earlier.
func validateKeyRotationChange(before, after controlplanev1.KeyRotationSpec, now time.Time, path *field.Path) field.ErrorList {
	was, is := before.PrepareAfter, after.PrepareAfter
	if is.IsZero() || was.After(now) || !is.Before(&was) {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("prepareAfter"), is.UTC().Format(time.RFC3339),
		fmt.Sprintf("must not be before %s, when the last rotation was asked for, or it would ask for none: leave that time there, or set the present one to ask for another rotation", was.UTC().Format(time.RFC3339)))}
}
