package components

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

const (
	keyMaterialVolume = "kok-key-material"
	certsVolume       = "kok-certs"
	// rotatedCertsVolume has the files of CAs that a rotation made, from the Secret of the component's certificates. The certsVolume has all
	// that is in the Secret, and kubelet starts a pod without a file that is not there yet.
	rotatedCertsVolume = "kok-rotated-certs"
	// RotatedCertsDirectory is where pods mount it.
	RotatedCertsDirectory = "/etc/kubernetes/rotated-pki"

	// mostMembers is how many members an etcd cluster may have.
	mostMembers = 7
)

// Set has pods of the component mount and name the files of keys that rotations made. Keys that never rotated change nothing. kubelet starts
// no pod before the Secret has all files that the pod mounts.
func (k HeldKeys) Set(template *corev1.PodTemplateSpec, in *Input, component string) {
	for _, held := range k {
		if files := held.reduced(*held.Kind.In(in)); !files.NeverRotated() {
			held.set(&template.Spec, in, component)
		}
	}
}

func (h HeldKey) set(pod *corev1.PodSpec, in *Input, component string) {
	if h.Members != nil {
		h.mountMembers(pod, in, component)
		return
	}
	container := &pod.Containers[0]
	h = h.without(container.Args)
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
	h.mountRotated(pod, names.Certs(in.Cluster.Name, component), byName(named[rotatedCertsVolume]))
}

// without leaves out arguments that yield to those of users.
func (h HeldKey) without(args []string) HeldKey {
	madeWith, _ := h.named(&Input{})
	h.Arguments = slices.DeleteFunc(slices.Clone(h.Arguments), func(a KeyArgument) bool {
		return a.Yields && slices.ContainsFunc(args, func(arg string) bool {
			return nameOf(arg) == a.Name && !slices.Contains(madeWith, arg)
		})
	})
	return h
}

// mountRotated adds files to the volume with files that rotations made. Kinds share this volume, and may share a file.
func (h HeldKey) mountRotated(pod *corev1.PodSpec, certs string, files []corev1.KeyToPath) {
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

// mountMembers has members find the files of their phase under the paths that they always have. kubelet starts no pod without the files that
// all members have. The leaves of single members are optional, because one template is for all members: it takes those that are there. They are
// never late, because the Secret had the leaves of all members when it got the common files.
func (h HeldKey) mountMembers(pod *corev1.PodSpec, in *Input, component string) {
	certs := corev1.LocalObjectReference{Name: names.Certs(in.Cluster.Name, component)}
	files, used := h.Members.common(in), h.Members.Used(in)
	var leaves []corev1.KeyToPath
	for ordinal := range mostMembers {
		member := fmt.Sprintf("%s-%d", names.Object(in.Cluster.Name, component), ordinal)
		leaves = append(leaves, leafAs(member, used, ".crt"), leafAs(member, used, ".key"))
	}
	at := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == certsVolume })
	pod.Volumes[at].VolumeSource = corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{Secret: &corev1.SecretProjection{LocalObjectReference: certs, Items: files}},
		{Secret: &corev1.SecretProjection{LocalObjectReference: certs, Items: leaves, Optional: ptr.To(true)}},
	}}}
}

// byName mounts data keys of a Secret by their own names.
func byName(keys []string) []corev1.KeyToPath {
	items := make([]corev1.KeyToPath, 0, len(keys))
	for _, key := range keys {
		items = append(items, corev1.KeyToPath{Key: key, Path: key})
	}
	return items
}

// names reports whether an argument names a file of a key.
func (h HeldKey) names(arg string) bool {
	return slices.ContainsFunc(h.Arguments, func(a KeyArgument) bool { return a.Name == nameOf(arg) })
}

// nameOf is the name of an argument.
func nameOf(arg string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
	return name
}

// named are the arguments that name files, and the files by the volume that has them.
func (h HeldKey) named(in *Input) (arguments []string, named map[string][]string) {
	named = map[string][]string{}
	add := func(volume, file string) {
		if !slices.Contains(named[volume], file) {
			named[volume] = append(named[volume], file)
		}
	}
	for _, argument := range h.Arguments {
		for _, file := range argument.Files(in) {
			directory, volume := argument.place(file)
			arguments = append(arguments, "--"+argument.Name+"="+directory+"/"+file)
			add(volume, file)
		}
	}
	if h.Further != nil {
		for _, file := range h.Further(in) {
			add(rotatedCertsVolume, file)
		}
	}
	return arguments, named
}

// place is where pods find a file of an argument.
func (a KeyArgument) place(file string) (directory, volume string) {
	switch {
	case !a.OfComponent:
		return KeyMaterialDirectory, keyMaterialVolume
	case slices.Contains(a.Files(&Input{}), file):
		return CertsDirectory, certsVolume
	}
	return RotatedCertsDirectory, rotatedCertsVolume
}
