// Package snapshotstore judges where snapshots of etcd are to be, as people write it: in the backup of a control plane, and in
// a KOKEtcdSnapshot of any store. It asks no server.
package snapshotstore

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// Validate says what is wrong with a store. The path is that of the store.
func Validate(store controlplanev1.EtcdSnapshotStore, path *field.Path) field.ErrorList {
	set := 0
	for _, is := range []bool{store.S3 != nil, store.ClaimName != "", store.PerMember != nil} {
		if is {
			set++
		}
	}
	switch {
	case set != 1:
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "exactly one of s3, claimName and perMember must be set")}
	case store.PerMember != nil:
		return validatePerMember(*store.PerMember, path.Child("perMember"))
	case store.S3 == nil:
		return validateClaim(store.ClaimName, path.Child("claimName"))
	}
	return validateS3(*store.S3, path)
}

// Warnings are about what works and is no good idea.
func Warnings(store controlplanev1.EtcdSnapshotStore, path *field.Path) []string {
	if store.S3 == nil || strings.HasPrefix(strings.ToLower(store.S3.Endpoint), "https:") {
		return nil
	}
	return []string{fmt.Sprintf("%s: by http everybody on the way can read and change what members send; snapshots are encrypted "+
		"and signed all the same. Write https://host:port, with the server's CA in caRef", path.Child("s3", "endpoint"))}
}

func validatePerMember(own controlplanev1.PerMemberStoreSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case own.Size == nil:
		errs = append(errs, field.Required(path.Child("size"), "set the size of each member's volume for snapshots, such as 8Gi"))
	case own.Size.Sign() <= 0:
		errs = append(errs, field.Invalid(path.Child("size"), own.Size.String(), "must be more than 0, such as 8Gi"))
	}
	if class := ptr.Deref(own.StorageClassName, ""); class != "" {
		errs = append(errs, validateName(class, path.Child("storageClassName"))...)
	}
	return errs
}

func validateClaim(name string, path *field.Path) field.ErrorList {
	errs := validateName(name, path)
	if names.HoldsData(name) {
		errs = append(errs, field.Invalid(path, name,
			fmt.Sprintf("claims whose names begin with %s- hold the data of members of etcd; use a claim of another name, with ReadWriteMany", names.DataVolume)))
	}
	if names.HoldsSnapshots(name) {
		errs = append(errs, field.Invalid(path, name,
			fmt.Sprintf("claims whose names begin with %s- hold the snapshots of members of etcd; use a claim of another name, with ReadWriteMany", names.SnapshotsVolume)))
	}
	return errs
}

func validateS3(s3 controlplanev1.S3StoreSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, invalid := range backup.CheckS3(backup.S3{Endpoint: s3.Endpoint, Bucket: s3.Bucket, Prefix: s3.Prefix, Region: s3.Region}) {
		// The message has the value, where that is no password.
		errs = append(errs, field.Invalid(path.Child(invalid.Field), field.OmitValueType{}, invalid.Message))
	}
	errs = append(errs, validateSecret(s3.CredentialsRef, path.Child("s3", "credentialsRef", "name"))...)
	if s3.CARef.Name != "" {
		errs = append(errs, validateName(s3.CARef.Name, path.Child("s3", "caRef", "name"))...)
	}
	return errs
}

// validateSecret keeps a control plane from using the credentials that the manager wrote for another tenant of the namespace.
func validateSecret(secret controlplanev1.SecretReference, path *field.Path) field.ErrorList {
	if secret.Name == "" {
		return field.ErrorList{field.Required(path, "name a Secret with the keys accessKeyID and secretAccessKey")}
	}
	errs := validateName(secret.Name, path)
	if ending, holds := names.HoldsKeys(secret.Name); holds {
		errs = append(errs, field.Invalid(path, secret.Name, fmt.Sprintf("Secrets whose names end in %s hold keys of tenants; use a Secret of another name", ending)))
	}
	return errs
}

func validateName(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range validation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(path, name, problem))
	}
	return errs
}
