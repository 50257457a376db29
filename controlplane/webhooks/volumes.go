package webhooks

import (
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// reserved are directories that the controller mounts into components, or that a container needs.
var reserved = []string{
	"/etc/kubernetes", "/var/log/kubernetes", "/etc/etcd", "/var/lib/etcd", "/run/konnectivity",
	"/usr/local/bin", "/usr/bin", "/bin", "/sbin", "/lib", "/lib64", "/proc", "/sys", "/dev",
}

func validateVolumes(volumes []controlplanev1.ExtraVolume, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, volume := range volumes {
		errs = append(errs, validateMountPath(volume.MountPath, at.Index(i).Child("mountPath"))...)
		for j := range i {
			if nested(volume.MountPath, volumes[j].MountPath) {
				errs = append(errs, field.Invalid(at.Index(i).Child("mountPath"), volume.MountPath,
					fmt.Sprintf("collides with %s, where volume %q is mounted", volumes[j].MountPath, volumes[j].Name)))
			}
		}
		errs = append(errs, validateSource(volume, at.Index(i))...)
	}
	return errs
}

func validateMountPath(mountPath string, at *field.Path) field.ErrorList {
	if !path.IsAbs(mountPath) || path.Clean(mountPath) != mountPath || mountPath == "/" {
		return field.ErrorList{field.Invalid(at, mountPath, "must be an absolute path of a directory below /, without \"..\", doubled slashes and a slash at the end")}
	}
	for _, directory := range reserved {
		if nested(mountPath, directory) {
			return field.ErrorList{field.Invalid(at, mountPath,
				fmt.Sprintf("collides with %s, which the component needs; mount it elsewhere, for example at /etc/extra", directory))}
		}
	}
	return nil
}

// nested says whether one of the two directories is in the other, or the other.
func nested(a, b string) bool {
	return strings.HasPrefix(a+"/", b+"/") || strings.HasPrefix(b+"/", a+"/")
}

func validateSource(volume controlplanev1.ExtraVolume, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if source := volume.ConfigMap; source != nil {
		errs = append(errs, validateObjectName(source.Name, "ConfigMap", at.Child("configMap", "name"))...)
		errs = append(errs, validateFiles(source.DefaultMode, source.Items, at.Child("configMap"))...)
	}
	if source := volume.Secret; source != nil {
		errs = append(errs, validateForeignSecret(source.SecretName, at.Child("secret", "secretName"))...)
		errs = append(errs, validateObjectName(source.SecretName, "Secret", at.Child("secret", "secretName"))...)
		errs = append(errs, validateFiles(source.DefaultMode, source.Items, at.Child("secret"))...)
	}
	if source := volume.EmptyDir; source != nil {
		if source.SizeLimit == nil {
			errs = append(errs, field.Required(at.Child("emptyDir", "sizeLimit"), "without it one control plane could fill a host node's disk; set it, for example to 1Gi"))
		}
		errs = append(errs, validatePositive(source.SizeLimit, "1Gi", at.Child("emptyDir", "sizeLimit"))...)
		if source.Medium != corev1.StorageMediumDefault && source.Medium != corev1.StorageMediumMemory {
			errs = append(errs, field.NotSupported(at.Child("emptyDir", "medium"), source.Medium,
				[]corev1.StorageMedium{corev1.StorageMediumDefault, corev1.StorageMediumMemory}))
		}
	}
	return errs
}

func validateObjectName(name, kind string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "name of a "+kind+" in the control plane's namespace")}
	}
	var errs field.ErrorList
	for _, problem := range validation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(at, name, problem))
	}
	return errs
}

func validateFiles(defaultMode *int32, items []corev1.KeyToPath, at *field.Path) field.ErrorList {
	errs := validateMode(defaultMode, at.Child("defaultMode"))
	for i, item := range items {
		for _, problem := range validation.IsConfigMapKey(item.Key) {
			errs = append(errs, field.Invalid(at.Child("items").Index(i).Child("key"), item.Key, problem))
		}
		if item.Path == "" || path.IsAbs(item.Path) || path.Clean(item.Path) != item.Path || strings.HasPrefix(item.Path, "..") {
			errs = append(errs, field.Invalid(at.Child("items").Index(i).Child("path"), item.Path, "must be a relative path in the volume, without \"..\""))
		}
		errs = append(errs, validateMode(item.Mode, at.Child("items").Index(i).Child("mode"))...)
	}
	return errs
}

func validateMode(mode *int32, at *field.Path) field.ErrorList {
	if mode == nil || *mode >= 0 && *mode <= 0o777 {
		return nil
	}
	return field.ErrorList{field.Invalid(at, *mode, "must be from 0 to 0777 (511)")}
}

// validateForeignSecret keeps a control plane from mounting what another tenant in the namespace, or
// it itself, is trusted by.
func validateForeignSecret(name string, at *field.Path) field.ErrorList {
	if ending, holds := names.HoldsKeys(name); holds {
		return field.ErrorList{field.Invalid(at, name,
			fmt.Sprintf("Secrets whose names end in %s hold keys of tenants and cannot be mounted; use a Secret of another name", ending))}
	}
	return nil
}
