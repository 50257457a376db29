package webhooks

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/apiserver"
	apiservervalidation "k8s.io/apiserver/pkg/apis/apiserver/validation"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/snapshotstore"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/space"
)

func validateEtcd(spec controlplanev1.EtcdSpec, path *field.Path) field.ErrorList {
	errs := validateImage(spec.Image, path.Child("image"))
	errs = append(errs, validateEtcdCluster(spec.Data, path.Child("data"))...)
	if !spec.EventsInData() {
		errs = append(errs, validateEtcdCluster(spec.Events.EtcdClusterSpec, path.Child("events"))...)
	}
	errs = append(errs, validateRestore(spec, path)...)
	if spec.Backup != nil {
		errs = append(errs, validateBackup(*spec.Backup, path.Child("backup"))...)
		if spec.Backup.Store.PerMember != nil && spec.Data.Storage.Type == controlplanev1.EtcdStorageEmptyDir {
			errs = append(errs, field.Invalid(path.Child("backup", "store", "perMember"), field.OmitValueType{},
				"cannot be where the data of members go with their pods (data.storage.type is EmptyDir): the volume for snapshots would tie each member to its host node; set data.storage.type to PersistentVolumeClaim, or store snapshots in a bucket"))
		}
	}
	return errs
}

// warnOfEtcd is what people read beside a spec that is taken. A quota that leaves a large database no room is no reason to refuse an object:
// clusterctl move makes those that run anew.
func warnOfEtcd(spec controlplanev1.EtcdSpec, path *field.Path) admission.Warnings {
	var warnings admission.Warnings
	if spec.Backup != nil {
		warnings = snapshotstore.Warnings(spec.Backup.Store, path.Child("backup", "store"))
	}
	clusters := map[string]controlplanev1.EtcdClusterSpec{"data": spec.Data, "events": spec.Events.EtcdClusterSpec}
	if spec.EventsInData() {
		delete(clusters, "events")
	}
	for _, name := range slices.Sorted(maps.Keys(clusters)) {
		if over := space.OverQuota(clusters[name].QuotaBackendSize, clusters[name].Storage.Size, path.Child(name).String()); over != "" {
			warnings = append(warnings, over)
		}
	}
	return warnings
}

func validateEtcdCluster(spec controlplanev1.EtcdClusterSpec, path *field.Path) field.ErrorList {
	errs := validateResources(spec.Resources, path.Child("resources"))
	errs = append(errs, validatePositive(spec.QuotaBackendSize, "2Gi", path.Child("quotaBackendSize"))...)
	errs = append(errs, validatePositive(spec.Storage.Size, "8Gi", path.Child("storage", "size"))...)
	if quota, size := spec.QuotaBackendSize, spec.Storage.Size; len(errs) == 0 && quota != nil && size != nil && quota.Cmp(*size) >= 0 {
		errs = append(errs, field.Invalid(path.Child("quotaBackendSize"), quota.String(),
			fmt.Sprintf("must be less than storage.size, %s: the volume also holds the write-ahead log and snapshots", size)))
	}
	if class := spec.Storage.StorageClassName; class != nil && *class != "" {
		at := path.Child("storage", "storageClassName")
		if spec.Storage.Type == controlplanev1.EtcdStorageEmptyDir {
			errs = append(errs, field.Invalid(at, *class, "must be unset when storage.type is EmptyDir"))
		}
		for _, problem := range validation.IsDNS1123Subdomain(*class) {
			errs = append(errs, field.Invalid(at, *class, problem))
		}
	}
	return errs
}

// validateEncryption calls kube-apiserver's own validation of the configuration that the controller
// will write.
func validateEncryption(spec controlplanev1.EncryptionAtRestSpec, path *field.Path) field.ErrorList {
	if len(spec.Resources) == 0 || spec.Mode == controlplanev1.EncryptionNone {
		return nil
	}
	const prefix = "resources[0].resources"
	var errs field.ErrorList
	for _, err := range apiservervalidation.ValidateEncryptionConfiguration(&apiserver.EncryptionConfiguration{
		Resources: []apiserver.ResourceConfiguration{{
			Resources: spec.Resources,
			Providers: []apiserver.ProviderConfiguration{{Identity: &apiserver.IdentityConfiguration{}}},
		}},
	}, true) {
		err.Field = path.String() + strings.TrimPrefix(err.Field, prefix)
		errs = append(errs, err)
	}
	return errs
}
