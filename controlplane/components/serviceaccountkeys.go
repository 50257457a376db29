package components

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// ServiceAccountKeys are the files of service account keys that pods have. The zero value is for a tenant that has the key which it
// was made with.
type ServiceAccountKeys struct {
	// Trusted are what the names of the files end in by whose keys tokens are verified, Used of the one that signs tokens. Empty is
	// the key that the tenant was made with.
	Trusted []string `json:"trusted,omitempty"`
	Used    string   `json:"used,omitempty"`
}

// keyArguments are the arguments that name files of service account keys, by component.
var keyArguments = map[string]struct{ trusted, used string }{
	names.KubeAPIServer:         {"service-account-key-file", "service-account-signing-key-file"},
	names.KubeControllerManager: {"", "service-account-private-key-file"},
}

const keyMaterialVolume = "kok-key-material"

// isZero reports whether the tenant has the key which it was made with.
func (k ServiceAccountKeys) isZero() bool { return len(k.Trusted) == 0 && k.Used == "" }

// of are the keys that a component has.
func (k ServiceAccountKeys) of(component string) ServiceAccountKeys {
	arguments, has := keyArguments[component]
	if !has {
		return ServiceAccountKeys{}
	}
	if arguments.trusted == "" {
		k.Trusted = nil
	}
	return k
}

// files are the names of the files of keys by which a component verifies, and of the one by which it signs.
func (k ServiceAccountKeys) files(component string) (trusted []string, used string) {
	if k.isZero() {
		k.Trusted = []string{""}
	}
	if keyArguments[component].trusted != "" {
		for _, file := range k.Trusted {
			trusted = append(trusted, keyFile(file, ".pub"))
		}
	}
	return trusted, keyFile(k.Used, ".key")
}

func keyFile(file, ending string) string {
	if file == "" {
		return "sa" + ending
	}
	return rotatedPrefix + file + ending
}

// rotatedPrefix begins the names of files of keys that a rotation made.
const rotatedPrefix = "sa-"

// arguments name the files.
func (k ServiceAccountKeys) arguments(component string) []string {
	trusted, used := k.files(component)
	var all []string
	for _, file := range trusted {
		all = append(all, "--"+keyArguments[component].trusted+"="+KeyMaterialDirectory+"/"+file)
	}
	return append(all, "--"+keyArguments[component].used+"="+KeyMaterialDirectory+"/"+used)
}

// AreOf reports whether a pod of a component has these keys.
func (k ServiceAccountKeys) AreOf(component string, pod *corev1.PodSpec) bool {
	i := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == component })
	if i < 0 {
		return false
	}
	present := slices.DeleteFunc(slices.Clone(pod.Containers[i].Args), func(arg string) bool { return !namesKey(component, arg) })
	wanted := k.arguments(component)
	slices.Sort(present)
	slices.Sort(wanted)
	return slices.Equal(present, wanted)
}

// namesKey reports whether an argument of a component names a file of a service account key.
func namesKey(component, arg string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
	return name != "" && (name == keyArguments[component].trusted || name == keyArguments[component].used)
}

// HasRotatedKeys reports whether a pod of a component has a key that a rotation made.
func HasRotatedKeys(component string, pod *corev1.PodSpec) bool {
	i := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == component })
	return i >= 0 && slices.ContainsFunc(pod.Containers[i].Args, func(arg string) bool {
		return namesKey(component, arg) && strings.Contains(arg, "/"+rotatedPrefix)
	})
}

// SetServiceAccountKeys has pods of a component mount and name the files of keys which a rotation made. Others stay as they are. kubelet
// starts no pod before the Secret has all files that it mounts.
func SetServiceAccountKeys(template *corev1.PodTemplateSpec, in *Input, component string) {
	keys := in.ServiceAccountKeys.of(component)
	if keys.isZero() {
		return
	}
	container := &template.Spec.Containers[0]
	first := slices.IndexFunc(container.Args, func(arg string) bool { return namesKey(component, arg) })
	others := slices.DeleteFunc(container.Args, func(arg string) bool { return namesKey(component, arg) })
	container.Args = slices.Insert(others, first, keys.arguments(component)...)
	trusted, used := keys.files(component)
	for i := range template.Spec.Volumes {
		volume := &template.Spec.Volumes[i]
		if volume.Name != keyMaterialVolume {
			continue
		}
		volume.Secret.Items = slices.DeleteFunc(volume.Secret.Items, func(item corev1.KeyToPath) bool {
			return item.Key == keyFile("", ".key") || item.Key == keyFile("", ".pub")
		})
		for _, file := range append(trusted, used) {
			volume.Secret.Items = append(volume.Secret.Items, corev1.KeyToPath{Key: file, Path: file})
		}
	}
}
