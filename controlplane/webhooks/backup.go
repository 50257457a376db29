package webhooks

import (
	"fmt"
	"strings"
	"time"

	"filippo.io/age"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/snapshotstore"
)

// Bounds of the time between two snapshots, and of how old the newest may become.
const (
	leastEvery = 5 * time.Minute
	mostEvery  = 30 * 24 * time.Hour
	mostAge    = 365 * 24 * time.Hour
)

func validateBackup(spec controlplanev1.EtcdBackupSpec, path *field.Path) field.ErrorList {
	errs := validateSchedule(spec, path)
	for i, recipient := range spec.Recipients {
		if problem := problemOfRecipient(recipient); problem != "" {
			// The value may be a secret: it is never in a message.
			errs = append(errs, field.Invalid(path.Child("recipients").Index(i), field.OmitValueType{}, problem))
		}
	}
	return append(errs, snapshotstore.Validate(spec.Store, path.Child("store"))...)
}

func validateSchedule(spec controlplanev1.EtcdBackupSpec, path *field.Path) field.ErrorList {
	errs := validateDuration(spec.Every, leastEvery, mostEvery, path.Child("every"))
	errs = append(errs, validateDuration(spec.MaxAge, leastEvery, mostAge, path.Child("maxAge"))...)
	if every, age := spec.Every, spec.MaxAge; len(errs) == 0 && every != nil && age != nil && age.Duration < every.Duration {
		errs = append(errs, field.Invalid(path.Child("maxAge"), age.Duration.String(), fmt.Sprintf("must not be less than every, %s: no snapshot is ever younger", every.Duration)))
	}
	return errs
}

// validateDuration wants whole seconds: the time that a snapshot is for is its name.
func validateDuration(value *metav1.Duration, least, most time.Duration, path *field.Path) field.ErrorList {
	if value == nil || value.Duration >= least && value.Duration <= most && value.Duration%time.Second == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value.Duration.String(), fmt.Sprintf("must be from %s to %s, in whole seconds", least, most))}
}

// problemOfRecipient takes public keys of one kind alone: age does not mix them, and the tenant's own is of that kind.
func problemOfRecipient(recipient string) string {
	switch {
	case strings.Contains(strings.ToUpper(recipient), "AGE-SECRET-KEY-"):
		return "is a secret key: put the public one there (age-keygen -y prints it), and make a new key, for this one was sent"
	case strings.HasPrefix(recipient, "age1pq"):
		return "is a post-quantum key (age1pq1...), which age does not mix with the tenant's own: take one that age-keygen makes without -pq"
	case strings.ContainsAny(recipient, "#\r\n\t "):
		return "must be one public key of age (age1...), and nothing beside it"
	}
	parsed, err := archive.ParseRecipients([]string{recipient})
	if err == nil && len(parsed) == 1 {
		if _, ok := parsed[0].(*age.X25519Recipient); ok {
			return ""
		}
	}
	return "is no public key of age (age1...): age-keygen -y prints one"
}

// validateOwnVolumesChange refuses volumes for snapshots that members do not have from their beginning, and others than those. See
// docs/decisions/etcd.md#volumes-for-snapshots-are-there-from-the-beginning.
func validateOwnVolumesChange(before, after *controlplanev1.EtcdBackupSpec, path *field.Path) field.ErrorList {
	own := func(spec *controlplanev1.EtcdBackupSpec) *controlplanev1.PerMemberStoreSpec {
		if spec == nil {
			return nil
		}
		return spec.Store.PerMember
	}
	was, is := own(before), own(after)
	switch {
	case is == nil:
		return nil
	case was == nil:
		return field.ErrorList{field.Forbidden(path, "cannot be added to a control plane that exists: members get their volumes when their StatefulSet is made; "+
			"store snapshots in a bucket or in a claim (s3, claimName), or create a new control plane with perMember")}
	case ptr.Deref(was.StorageClassName, "") != ptr.Deref(is.StorageClassName, ""):
		return field.ErrorList{field.Invalid(path.Child("storageClassName"), ptr.Deref(is.StorageClassName, ""),
			fmt.Sprintf("is immutable: set it to %q again, or store snapshots in a bucket or in a claim (s3, claimName)", ptr.Deref(was.StorageClassName, "")))}
	}
	return nil
}
