package components

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

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

// keyHolder is a component whose pods have files of keys.
type keyHolder struct {
	component string
	// trusts is false for a component that only uses a key, uses for one that only trusts it: it does not restart when others come to
	// trust or to use another one.
	trusts, uses bool
	// arguments name files. A component without any finds them under paths that stay the same, whatever they are in the Secret of its
	// certificates: mounts are these files and paths, which the kinds of its keys share, and own are paths of files of this kind alone.
	arguments []keyArgument
	mounts    func(*Input) []corev1.KeyToPath
	own       []string
}

// keyArgument is an argument that names files, each in the present place of its kind.
type keyArgument struct {
	name  string
	files func(*Input) []string
	// ofComponent is true for files that are in the Secret of the component's certificates.
	ofComponent bool
	// shared is true for files of which the names also tell of keys of another kind.
	shared bool
}

const (
	keyMaterialVolume = "kok-key-material"
	certsVolume       = "kok-certs"
	// rotatedCertsVolume has files of CAs that a rotation made, from the Secret of the component's certificates: the volume of the others
	// has all that is in the Secret, and lets a pod start without them.
	rotatedCertsVolume = "kok-rotated-certs"
	// RotatedCertsDirectory is where pods mount it.
	RotatedCertsDirectory = "/etc/kubernetes/rotated-pki"

	// FrontProxyClient is the leaf that API servers show to extension API servers.
	FrontProxyClient = "front-proxy-client"
	// EtcdClient is the leaf that API servers show to etcd.
	EtcdClient = "etcd-client"
	// EtcdCAs is the file of API servers with the CAs of both etcd clusters.
	EtcdCAs = "etcd-ca.crt"

	// MemberCAs is the file with the CAs that members of etcd trust as each other.
	MemberCAs = "ca.crt"
	// MemberClientCAs is the file with those that they trust as clients.
	MemberClientCAs = "client-ca.crt"
	// MemberClient is the leaf that they show to each other.
	MemberClient = "peer-client"
	// mostMembers is how many members an etcd cluster may have.
	mostMembers = 7
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
				{name: "proxy-client-cert-file", files: frontProxyLeaf(".crt"), ofComponent: true},
				{name: "proxy-client-key-file", files: frontProxyLeaf(".key"), ofComponent: true},
				frontProxyTrust,
			}},
			{component: names.KubeControllerManager, trusts: true, arguments: []keyArgument{frontProxyTrust}},
			{component: names.KubeScheduler, trusts: true, arguments: []keyArgument{frontProxyTrust}},
		},
	}
	// EtcdCA is the CA of the data etcd. The events etcd trusts it for its clients, as API servers show both the same certificate.
	EtcdCA = KeyKind{
		In: func(in *Input) *KeyFiles { return &in.EtcdCAs },
		holders: []keyHolder{
			{component: names.EtcdData, trusts: true, uses: true, mounts: dataMembers, own: []string{MemberCAs}},
			{component: names.EtcdEvents, trusts: true, mounts: eventsMembers},
			{component: names.KubeAPIServer, trusts: true, uses: true, arguments: []keyArgument{
				etcdTrust,
				{name: "etcd-certfile", files: etcdLeaf(".crt"), ofComponent: true},
				{name: "etcd-keyfile", files: etcdLeaf(".key"), ofComponent: true},
			}},
		},
	}
	// EtcdEventsCA is the CA of the events etcd.
	EtcdEventsCA = KeyKind{
		In: func(in *Input) *KeyFiles { return &in.EtcdEventsCAs },
		holders: []keyHolder{
			{component: names.EtcdEvents, trusts: true, uses: true, mounts: eventsMembers, own: []string{MemberCAs}},
			{component: names.KubeAPIServer, trusts: true, arguments: []keyArgument{etcdTrust}},
		},
	}
	keyKinds = []KeyKind{ServiceAccountKey, EncryptionKey, FrontProxyCA, EtcdCA, EtcdEventsCA}

	frontProxyTrust = keyArgument{name: "requestheader-client-ca-file", files: frontProxyCAs}
	etcdTrust       = keyArgument{name: "etcd-cafile", files: etcdCAs, ofComponent: true, shared: true}
)

// frontProxyCAs is one file with all CAs that are trusted.
func frontProxyCAs(in *Input) []string {
	return []string{pki.TrustedFile(pki.FrontProxyCACert, in.FrontProxyCAs.Trusted...)}
}

// frontProxyLeaf is a file of the leaf that the CA which is in use has signed.
func frontProxyLeaf(ending string) func(*Input) []string {
	return func(in *Input) []string {
		return []string{pki.LeafName(FrontProxyClient, in.FrontProxyCAs.Used) + ending}
	}
}

func etcdCAs(in *Input) []string {
	return []string{pki.TrustedFileOfBoth(EtcdCAs, in.EtcdCAs.Trusted, in.EtcdEventsCAs.Trusted)}
}

func etcdLeaf(ending string) func(*Input) []string {
	return func(in *Input) []string { return []string{pki.LeafName(EtcdClient, in.EtcdCAs.Used) + ending} }
}

// dataMembers are the files of members of the data etcd, which trust the same CAs as each other and as clients.
func dataMembers(in *Input) []corev1.KeyToPath {
	return []corev1.KeyToPath{
		{Key: pki.TrustedFile(MemberCAs, in.EtcdCAs.Trusted...), Path: MemberCAs},
		{Key: pki.TrustedFile(MemberClientCAs, in.EtcdCAs.Trusted...), Path: MemberClientCAs},
		leafAs(MemberClient, in.EtcdCAs.Used, ".crt"), leafAs(MemberClient, in.EtcdCAs.Used, ".key"),
	}
}

// eventsMembers are the files of members of the events etcd.
func eventsMembers(in *Input) []corev1.KeyToPath {
	return []corev1.KeyToPath{
		{Key: pki.TrustedFile(MemberCAs, in.EtcdEventsCAs.Trusted...), Path: MemberCAs},
		{Key: pki.TrustedFileOfBoth(MemberClientCAs, in.EtcdEventsCAs.Trusted, in.EtcdCAs.Trusted), Path: MemberClientCAs},
		leafAs(MemberClient, in.EtcdEventsCAs.Used, ".crt"), leafAs(MemberClient, in.EtcdEventsCAs.Used, ".key"),
	}
}

// leafAs is a file of the leaf that the CA which is in use has signed, under the name that it has without a rotation.
func leafAs(name, used, ending string) corev1.KeyToPath {
	return corev1.KeyToPath{Key: pki.LeafName(name, used) + ending, Path: name + ending}
}

func serviceAccountPublic(in *Input) []string {
	f := in.ServiceAccountKeys
	if f.isZero() {
		return []string{serviceAccountFile("", ".pub")}
	}
	var files []string
	for _, file := range f.Trusted {
		files = append(files, serviceAccountFile(file, ".pub"))
	}
	return files
}

func serviceAccountPrivate(in *Input) []string {
	return []string{serviceAccountFile(in.ServiceAccountKeys.Used, ".key")}
}

func serviceAccountFile(file, ending string) string {
	if file == "" {
		return "sa" + ending
	}
	return "sa-" + file + ending
}

// encryptionConfiguration is one file with all keys, the one first that writes.
func encryptionConfiguration(in *Input) []string {
	f := in.EncryptionKeys
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
func (h keyHolder) named(in *Input) (arguments []string, named map[string][]string) {
	named = map[string][]string{}
	for _, argument := range h.arguments {
		for _, file := range argument.files(in) {
			directory, volume := argument.place(file)
			arguments = append(arguments, "--"+argument.name+"="+directory+"/"+file)
			named[volume] = append(named[volume], file)
		}
	}
	return arguments, named
}

// place is where a file of an argument is. One that the tenant was made with is among all that the component's Secret has.
func (a keyArgument) place(file string) (directory, volume string) {
	switch {
	case !a.ofComponent:
		return KeyMaterialDirectory, keyMaterialVolume
	case slices.Contains(a.files(&Input{}), file):
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

// mounted are the files of its certificates that a pod does not start without, with their paths: none for one that has all that the Secret
// has.
func mounted(pod *corev1.PodSpec) []corev1.KeyToPath {
	i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == certsVolume })
	if i < 0 || pod.Volumes[i].Projected == nil {
		return nil
	}
	var items []corev1.KeyToPath
	for _, source := range pod.Volumes[i].Projected.Sources {
		if source.Secret != nil && !ptr.Deref(source.Secret.Optional, false) {
			items = append(items, source.Secret.Items...)
		}
	}
	return items
}

// AreOf reports whether a pod of a component has the files of its phase.
func (k KeyKind) AreOf(in *Input, component string, pod *corev1.PodSpec) bool {
	holder, has := k.holder(component)
	if has && holder.mounts != nil {
		wanted := holder.mounts(in)
		if slices.Equal(wanted, holder.mounts(&Input{})) {
			wanted = nil
		}
		return slices.Equal(mounted(pod), wanted)
	}
	present, found := holder.present(pod)
	if !has || !found {
		return false
	}
	wanted, _ := holder.named(in)
	slices.Sort(present)
	slices.Sort(wanted)
	return slices.Equal(present, wanted)
}

// IsRotated reports whether a pod of a component has a key that a rotation made. What a file tells that kinds share does not count.
func (k KeyKind) IsRotated(component string, pod *corev1.PodSpec) bool {
	holder, _ := k.holder(component)
	if holder.mounts != nil {
		return slices.ContainsFunc(mounted(pod), func(item corev1.KeyToPath) bool {
			return slices.Contains(holder.own, item.Path) && item.Key != item.Path
		})
	}
	holder.arguments = slices.DeleteFunc(slices.Clone(holder.arguments), func(a keyArgument) bool { return a.shared })
	present, _ := holder.present(pod)
	madeWith, _ := holder.named(&Input{})
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
			holder.set(&template.Spec, in)
		}
	}
}

func (h keyHolder) set(pod *corev1.PodSpec, in *Input) {
	if h.mounts != nil {
		h.mount(pod, in)
		return
	}
	container := &pod.Containers[0]
	first := slices.IndexFunc(container.Args, h.names)
	others := slices.DeleteFunc(container.Args, h.names)
	arguments, named := h.named(in)
	container.Args = slices.Insert(others, first, arguments...)
	_, madeWith := h.named(&Input{})
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
	h.mountRotated(pod, names.Certs(in.Cluster.Name, h.component), byName(named[rotatedCertsVolume]))
}

// mountRotated adds files to the volume of those that a rotation made. Kinds share it, and may share a file.
func (h keyHolder) mountRotated(pod *corev1.PodSpec, certs string, files []corev1.KeyToPath) {
	if len(files) == 0 {
		return
	}
	at := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == rotatedCertsVolume })
	if at < 0 {
		at = len(pod.Volumes)
		pod.Volumes = append(pod.Volumes, corev1.Volume{
			Name: rotatedCertsVolume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: certs}},
		})
		pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts, corev1.VolumeMount{
			Name: rotatedCertsVolume, MountPath: RotatedCertsDirectory, ReadOnly: true,
		})
	}
	secret := pod.Volumes[at].Secret
	for _, file := range files {
		if !slices.Contains(secret.Items, file) {
			secret.Items = append(secret.Items, file)
		}
	}
}

// mount has pods of a StatefulSet find the files of their phase under the paths that they always have. Members have leaves of their own, and
// the template is of all: it takes those that are there, after files without which no pod starts. All are in one Secret, which had the
// leaves of all members when it got these files.
func (h keyHolder) mount(pod *corev1.PodSpec, in *Input) {
	certs := corev1.LocalObjectReference{Name: names.Certs(in.Cluster.Name, h.component)}
	files, used := h.mounts(in), usedBy(h.component, in)
	var leaves []corev1.KeyToPath
	for ordinal := range mostMembers {
		member := fmt.Sprintf("%s-%d", names.Object(in.Cluster.Name, h.component), ordinal)
		leaves = append(leaves, leafAs(member, used, ".crt"), leafAs(member, used, ".key"))
	}
	at := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == certsVolume })
	pod.Volumes[at].VolumeSource = corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{Secret: &corev1.SecretProjection{LocalObjectReference: certs, Items: files}},
		{Secret: &corev1.SecretProjection{LocalObjectReference: certs, Items: leaves, Optional: ptr.To(true)}},
	}}}
}

// usedBy is what the names of the files end in of the CA that signs the leaves of an etcd's members.
func usedBy(component string, in *Input) string {
	if component == names.EtcdEvents {
		return in.EtcdEventsCAs.Used
	}
	return in.EtcdCAs.Used
}

// byName mounts data keys of a Secret by their own names.
func byName(keys []string) []corev1.KeyToPath {
	items := make([]corev1.KeyToPath, 0, len(keys))
	for _, key := range keys {
		items = append(items, corev1.KeyToPath{Key: key, Path: key})
	}
	return items
}
