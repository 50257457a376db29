package webhooks

import (
	"fmt"
	"strings"

	"github.com/distribution/reference"
	"golang.org/x/mod/semver"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

// firstThatMends is the first etcd 3.5 that writes down rightly who is a member, by which 3.6 goes:
// https://github.com/etcd-io/etcd/issues/20967.
const firstThatMends = "v3.5.26"

// validateEtcdVersionChange refuses a version of etcd that would not start with the present data. It refuses nothing where a tag tells no
// version. It leaves the way back open while pods are rolled out, because some members may still have the version before. Members with
// their data in their pods never take another image, so it refuses nothing for them either.
func validateEtcdVersionChange(before, after *controlplanev1.KOKControlPlane, table *versions.Table, path *field.Path) field.ErrorList {
	from, to := etcdVersion(before, table), etcdVersion(after, table)
	settled := before.Status.ObservedGeneration == before.Generation && conditions.IsFalse(before, conditionsv1.RollingOutCondition)
	fromMinor, toMinor := semver.MajorMinor(from), semver.MajorMinor(to)
	switch {
	case from == "" || to == "" || fromMinor == toMinor || neverBootstrapped(before) || keepTheirPods(before.Spec.Etcd):
		return nil
	case semver.Compare(toMinor, fromMinor) < 0 && settled:
		return field.ErrorList{field.Invalid(path, after.Spec.Etcd.Image,
			fmt.Sprintf("etcd %s does not start with the data of etcd %s, which all members run; name an image of etcd %s", to, from, fromMinor))}
	case fromMinor == "v3.5" && semver.Compare(toMinor, fromMinor) > 0 && semver.Compare(from, firstThatMends) >= 0 && !settled:
		return field.ErrorList{field.Invalid(path, after.Spec.Etcd.Image,
			fmt.Sprintf("some members may run an etcd that is older than %s, and etcd %s would not know all members then; go on when the condition RollingOut is false", from, to))}
	case fromMinor == "v3.5" && semver.Compare(toMinor, fromMinor) > 0 && semver.Compare(from, firstThatMends) < 0:
		return field.ErrorList{field.Invalid(path, after.Spec.Etcd.Image,
			fmt.Sprintf("etcd %s would not know all members of etcd %s; name an image of etcd %s or newer first, and go on when the condition RollingOut is false", to, from, firstThatMends))}
	}
	return nil
}

// keepTheirPods reports whether no member of either etcd gets another pod by a change.
func keepTheirPods(etcd controlplanev1.EtcdSpec) bool {
	return etcd.Data.Storage.Type == controlplanev1.EtcdStorageEmptyDir && (etcd.EventsInData() || etcd.Events.Storage.Type == controlplanev1.EtcdStorageEmptyDir)
}

// etcdVersion is the version that the tag of etcd's image tells, such as "v3.6.8"; empty when it tells none.
func etcdVersion(c *controlplanev1.KOKControlPlane, table *versions.Table) string {
	tag := ""
	if image := c.Spec.Etcd.Image; image == "" {
		release, err := table.Release(c.Spec.Version)
		if err != nil {
			return ""
		}
		tag = release.Etcd
	} else if named, err := reference.ParseNormalizedNamed(image); err != nil {
		return ""
	} else if tagged, ok := named.(reference.Tagged); ok {
		tag = tagged.Tag()
	}
	tag = versions.Normalize(tag)
	if strings.Count(tag, ".") < 2 || !semver.IsValid(tag) { // A tag such as 3.5 is of any patch version.
		return ""
	}
	version := semver.Canonical(tag)
	return strings.TrimSuffix(version, semver.Prerelease(version)) // As "3.6.8-0": the rest is of the image.
}
