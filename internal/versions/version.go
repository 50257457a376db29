package versions

import (
	"fmt"
	"strings"

	"github.com/coreos/go-semver/semver"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Version is a Kubernetes version. Its semantic version compares by the rules of semver.org.
type Version struct {
	semver.Version
}

// Normalize adds the leading "v" that people leave out of a version. It changes nothing else, so
// that a malformed value stays recognisable in the message that refuses it.
func Normalize(version string) string {
	if version == "" || version[0] < '0' || version[0] > '9' {
		return version
	}
	return "v" + version
}

// Parse reads a full version with its leading "v", for example "v1.36.3" or "v1.36.0-rc.1". A version that is no valid
// label value is refused, because pods carry their version as a label.
func Parse(version string) (Version, error) {
	malformed := fmt.Errorf("%q is not a Kubernetes version of the form v1.36.3", version)
	bare, found := strings.CutPrefix(version, "v")
	if !found {
		return Version{}, malformed
	}
	parsed, err := semver.NewVersion(bare)
	// The library accepts signs and leading zeros, which the format does not know.
	if err != nil || parsed.String() != bare {
		return Version{}, malformed
	}
	if len(validation.IsValidLabelValue(ImageTag(version))) > 0 {
		return Version{}, fmt.Errorf("%q must have at most %d characters and end with a letter or a digit: pods carry it as a label", version, validation.LabelValueMaxLength)
	}
	return Version{Version: *parsed}, nil
}

// String is the version with its leading "v".
func (v Version) String() string { return "v" + v.Version.String() }

// MinorString is the minor that the version belongs to, for example "v1.36".
func (v Version) MinorString() string { return fmt.Sprintf("v%d.%d", v.Major, v.Minor) }

// SameMinor reports whether two version texts are versions of one minor.
func SameMinor(a, b string) bool {
	left, leftErr := Parse(a)
	right, rightErr := Parse(b)
	return leftErr == nil && rightErr == nil && left.MinorString() == right.MinorString()
}

// ImageTag is a version as an image tag or a label has it: "+" is not allowed there, and Kubernetes' own
// images have "_" in its place.
func ImageTag(version string) string { return strings.ReplaceAll(version, "+", "_") }

// Compare orders version texts, the older first. Texts that are no versions are ordered as texts.
func Compare(a, b string) int {
	left, leftErr := Parse(a)
	right, rightErr := Parse(b)
	if leftErr != nil || rightErr != nil {
		return strings.Compare(a, b)
	}
	return left.Compare(right.Version)
}
