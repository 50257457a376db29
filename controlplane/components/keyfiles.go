package components

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
)

// KeyFiles are the files of a kind of key that pods have. The zero value is for a tenant that has the key which it was made with.
type KeyFiles struct {
	// Trusted are what the names of the files end in by whose keys something is verified or read, Used of the one that signs or
	// writes. Empty is the key that the tenant was made with.
	Trusted []string `json:"trusted,omitempty"`
	Used    string   `json:"used,omitempty"`
}

// isZero reports whether the tenant has the key which it was made with.
func (f KeyFiles) isZero() bool { return len(f.Trusted) == 0 && f.Used == "" }

// KeyKind is how pods have a kind of key that rotates. Every file that a rotation made has a name of its own.
type KeyKind struct {
	// In is the part of an input that has the files.
	In func(*Input) *KeyFiles
	// holders are the components whose pods have keys of the kind.
	holders []keyHolder
}

// keyHolder is a component with the arguments that name files of keys.
type keyHolder struct {
	component string
	// trusts is false for a component that only uses a key: it does not restart when others come to trust another one.
	trusts    bool
	arguments []keyArgument
}

type keyArgument struct {
	name  string
	files func(KeyFiles) []string
}

const keyMaterialVolume = "kok-key-material"

// Kinds of keys that rotate.
var (
	ServiceAccountKey = KeyKind{
		In: func(in *Input) *KeyFiles { return &in.ServiceAccountKeys },
		holders: []keyHolder{
			{names.KubeAPIServer, true, []keyArgument{
				{"service-account-key-file", serviceAccountPublic}, {"service-account-signing-key-file", serviceAccountPrivate},
			}},
			{names.KubeControllerManager, false, []keyArgument{{"service-account-private-key-file", serviceAccountPrivate}}},
		},
	}
	EncryptionKey = KeyKind{
		In:      func(in *Input) *KeyFiles { return &in.EncryptionKeys },
		holders: []keyHolder{{names.KubeAPIServer, true, []keyArgument{{"encryption-provider-config", encryptionConfiguration}}}},
	}
	keyKinds = []KeyKind{ServiceAccountKey, EncryptionKey}
)

func serviceAccountPublic(f KeyFiles) []string {
	if f.isZero() {
		return []string{serviceAccountFile("", ".pub")}
	}
	var files []string
	for _, file := range f.Trusted {
		files = append(files, serviceAccountFile(file, ".pub"))
	}
	return files
}

func serviceAccountPrivate(f KeyFiles) []string { return []string{serviceAccountFile(f.Used, ".key")} }

func serviceAccountFile(file, ending string) string {
	if file == "" {
		return "sa" + ending
	}
	return "sa-" + file + ending
}

// encryptionConfiguration is one file with all keys, the one first that writes.
func encryptionConfiguration(f KeyFiles) []string {
	if f.isZero() {
		return []string{pki.EncryptionFile()}
	}
	others := slices.DeleteFunc(slices.Clone(f.Trusted), func(file string) bool { return file == f.Used })
	return []string{pki.EncryptionFile(append([]string{f.Used}, others...)...)}
}

// Holders are the components whose pods have keys of the kind.
func (k KeyKind) Holders() []string {
	holders := make([]string, 0, len(k.holders))
	for _, holder := range k.holders {
		holders = append(holders, holder.component)
	}
	return holders
}

func (k KeyKind) holder(component string) (keyHolder, bool) {
	i := slices.IndexFunc(k.holders, func(h keyHolder) bool { return h.component == component })
	if i < 0 {
		return keyHolder{}, false
	}
	return k.holders[i], true
}

// of are the files that pods of a component depend on.
func (k KeyKind) of(files KeyFiles, component string) KeyFiles {
	holder, has := k.holder(component)
	switch {
	case !has:
		return KeyFiles{}
	case !holder.trusts:
		files.Trusted = nil
	}
	return files
}

// names reports whether an argument names a file of a key.
func (h keyHolder) names(arg string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
	return slices.ContainsFunc(h.arguments, func(a keyArgument) bool { return a.name == name })
}

// named are the arguments that name files, and the files.
func (h keyHolder) named(files KeyFiles) (arguments, named []string) {
	for _, argument := range h.arguments {
		for _, file := range argument.files(files) {
			arguments = append(arguments, "--"+argument.name+"="+KeyMaterialDirectory+"/"+file)
			named = append(named, file)
		}
	}
	return arguments, named
}

// present are the arguments of a pod that name files; false for a pod of another component.
func (h keyHolder) present(pod *corev1.PodSpec) ([]string, bool) {
	i := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == h.component })
	if i < 0 {
		return nil, false
	}
	return slices.DeleteFunc(slices.Clone(pod.Containers[i].Args), func(arg string) bool { return !h.names(arg) }), true
}

// AreOf reports whether a pod of a component has these files.
func (k KeyKind) AreOf(files KeyFiles, component string, pod *corev1.PodSpec) bool {
	holder, has := k.holder(component)
	present, found := holder.present(pod)
	if !has || !found {
		return false
	}
	wanted, _ := holder.named(files)
	slices.Sort(present)
	slices.Sort(wanted)
	return slices.Equal(present, wanted)
}

// IsRotated reports whether a pod of a component has a key that a rotation made.
func (k KeyKind) IsRotated(component string, pod *corev1.PodSpec) bool {
	holder, _ := k.holder(component)
	present, _ := holder.present(pod)
	madeWith, _ := holder.named(KeyFiles{})
	return slices.ContainsFunc(present, func(arg string) bool {
		_, file, _ := strings.Cut(arg, "=")
		return strings.HasPrefix(file, KeyMaterialDirectory+"/") && !slices.Contains(madeWith, arg)
	})
}

// ReduceKeys leaves the files in an input that pods of a component depend on.
func ReduceKeys(in *Input, component string) {
	for _, kind := range keyKinds {
		files := kind.In(in)
		*files = kind.of(*files, component)
	}
}

// SetKeys has pods of a component mount and name the files of keys which rotations made. Others stay as they are. kubelet starts no pod
// before the Secret has all files that it mounts.
func SetKeys(template *corev1.PodTemplateSpec, in *Input, component string) {
	for _, kind := range keyKinds {
		if files := kind.of(*kind.In(in), component); !files.isZero() {
			holder, _ := kind.holder(component)
			holder.set(&template.Spec, files)
		}
	}
}

func (h keyHolder) set(pod *corev1.PodSpec, files KeyFiles) {
	container := &pod.Containers[0]
	first := slices.IndexFunc(container.Args, h.names)
	others := slices.DeleteFunc(container.Args, h.names)
	arguments, named := h.named(files)
	container.Args = slices.Insert(others, first, arguments...)
	_, madeWith := h.named(KeyFiles{})
	for i := range pod.Volumes {
		volume := &pod.Volumes[i]
		if volume.Name != keyMaterialVolume {
			continue
		}
		volume.Secret.Items = slices.DeleteFunc(volume.Secret.Items, func(item corev1.KeyToPath) bool { return slices.Contains(madeWith, item.Key) })
		for _, file := range named {
			volume.Secret.Items = append(volume.Secret.Items, corev1.KeyToPath{Key: file, Path: file})
		}
	}
}
