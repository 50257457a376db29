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
	// trusts is false for a component that only uses a key, uses for one that only trusts it: it does not restart when others come to
	// trust or to use another one.
	trusts, uses bool
	arguments    []keyArgument
}

// keyArgument is an argument that names files, each in the present place of its kind.
type keyArgument struct {
	name  string
	files func(KeyFiles) []string
	// leaf is true for files of a leaf, which is in the Secret of the component's certificates.
	leaf bool
}

const (
	keyMaterialVolume = "kok-key-material"
	certsVolume       = "kok-certs"
	// rotatedCertsVolume has leaves of CAs that a rotation made, from the Secret of the component's certificates: the volume of the others
	// has all that is in the Secret, and lets a pod start without them.
	rotatedCertsVolume = "kok-rotated-certs"
	// RotatedCertsDirectory is where pods mount it.
	RotatedCertsDirectory = "/etc/kubernetes/rotated-pki"

	// FrontProxyClient is the leaf that API servers show to extension API servers.
	FrontProxyClient = "front-proxy-client"
)

// Kinds of keys that rotate.
var (
	ServiceAccountKey = KeyKind{
		In: func(in *Input) *KeyFiles { return &in.ServiceAccountKeys },
		holders: []keyHolder{
			{component: names.KubeAPIServer, trusts: true, uses: true, arguments: []keyArgument{
				{name: "service-account-key-file", files: serviceAccountPublic},
				{name: "service-account-signing-key-file", files: serviceAccountPrivate},
			}},
			{component: names.KubeControllerManager, uses: true, arguments: []keyArgument{
				{name: "service-account-private-key-file", files: serviceAccountPrivate},
			}},
		},
	}
	EncryptionKey = KeyKind{
		In: func(in *Input) *KeyFiles { return &in.EncryptionKeys },
		holders: []keyHolder{{component: names.KubeAPIServer, trusts: true, uses: true, arguments: []keyArgument{
			{name: "encryption-provider-config", files: encryptionConfiguration},
		}}},
	}
	FrontProxyCA = KeyKind{
		In: func(in *Input) *KeyFiles { return &in.FrontProxyCAs },
		holders: []keyHolder{
			{component: names.KubeAPIServer, trusts: true, uses: true, arguments: []keyArgument{
				{name: "proxy-client-cert-file", files: leafFile(FrontProxyClient, ".crt"), leaf: true},
				{name: "proxy-client-key-file", files: leafFile(FrontProxyClient, ".key"), leaf: true},
				frontProxyTrust,
			}},
			{component: names.KubeControllerManager, trusts: true, arguments: []keyArgument{frontProxyTrust}},
			{component: names.KubeScheduler, trusts: true, arguments: []keyArgument{frontProxyTrust}},
		},
	}
	keyKinds = []KeyKind{ServiceAccountKey, EncryptionKey, FrontProxyCA}

	frontProxyTrust = keyArgument{name: "requestheader-client-ca-file", files: trustedCAs(pki.FrontProxyCACert)}
)

// trustedCAs is one file with all CAs that are trusted.
func trustedCAs(certKey string) func(KeyFiles) []string {
	return func(f KeyFiles) []string { return []string{pki.TrustedFile(certKey, f.Trusted...)} }
}

// leafFile is a file of the leaf that the CA which is in use has signed.
func leafFile(name, ending string) func(KeyFiles) []string {
	return func(f KeyFiles) []string { return []string{pki.LeafName(name, f.Used) + ending} }
}

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
	if !has {
		return KeyFiles{}
	}
	if !holder.trusts {
		files.Trusted = nil
	}
	if !holder.uses {
		files.Used = ""
	}
	return files
}

// names reports whether an argument names a file of a key.
func (h keyHolder) names(arg string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
	return slices.ContainsFunc(h.arguments, func(a keyArgument) bool { return a.name == name })
}

// named are the arguments that name files, and the files by the volume that they are in.
func (h keyHolder) named(files KeyFiles) (arguments []string, named map[string][]string) {
	named = map[string][]string{}
	for _, argument := range h.arguments {
		directory, volume := argument.place(files)
		for _, file := range argument.files(files) {
			arguments = append(arguments, "--"+argument.name+"="+directory+"/"+file)
			named[volume] = append(named[volume], file)
		}
	}
	return arguments, named
}

// place is where an argument's files are. A leaf of the CA that the tenant was made with is among all that the component's Secret has.
func (a keyArgument) place(files KeyFiles) (directory, volume string) {
	switch {
	case !a.leaf:
		return KeyMaterialDirectory, keyMaterialVolume
	case files.Used == "":
		return CertsDirectory, certsVolume
	}
	return RotatedCertsDirectory, rotatedCertsVolume
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
		ours := strings.HasPrefix(file, KeyMaterialDirectory+"/") || strings.HasPrefix(file, RotatedCertsDirectory+"/")
		return ours && !slices.Contains(madeWith, arg)
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
			holder.set(&template.Spec, files, names.Certs(in.Cluster.Name, component))
		}
	}
}

func (h keyHolder) set(pod *corev1.PodSpec, files KeyFiles, certs string) {
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
		volume.Secret.Items = slices.DeleteFunc(volume.Secret.Items, func(item corev1.KeyToPath) bool {
			return slices.Contains(madeWith[keyMaterialVolume], item.Key)
		})
		volume.Secret.Items = append(volume.Secret.Items, byName(named[keyMaterialVolume])...)
	}
	if leaves := byName(named[rotatedCertsVolume]); len(leaves) > 0 {
		pod.Volumes = append(pod.Volumes, corev1.Volume{
			Name: rotatedCertsVolume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: certs, Items: leaves}},
		})
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{
			Name: rotatedCertsVolume, MountPath: RotatedCertsDirectory, ReadOnly: true,
		})
	}
}

// byName mounts data keys of a Secret by their own names.
func byName(keys []string) []corev1.KeyToPath {
	items := make([]corev1.KeyToPath, 0, len(keys))
	for _, key := range keys {
		items = append(items, corev1.KeyToPath{Key: key, Path: key})
	}
	return items
}
