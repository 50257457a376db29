package components

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// present are the arguments of a pod that name files; false for a pod of another component.
func (h HeldKey) present(pod *corev1.PodSpec, component string) ([]string, bool) {
	i := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == component })
	if i < 0 {
		return nil, false
	}
	return slices.DeleteFunc(slices.Clone(pod.Containers[i].Args), func(arg string) bool { return !h.names(arg) }), true
}

// mounted lists the files, with their paths, that the Secret of certificates must have before kubelet starts a pod. A pod that mounts the whole
// Secret names no files, so that its list is empty.
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

// HasKeys reports whether a pod of the component has the files of a kind that an input names.
func (c Component) HasKeys(kind *KeyKind, in *Input, pod *corev1.PodSpec) bool {
	held, has := c.Keys.of(kind)
	if has && held.Members != nil {
		wanted := held.Members.common(in)
		if slices.Equal(wanted, held.Members.common(&Input{})) {
			wanted = nil
		}
		return slices.Equal(mounted(pod), wanted)
	}
	held.Arguments = slices.DeleteFunc(slices.Clone(held.Arguments), func(a KeyArgument) bool { return a.Yields })
	present, found := held.present(pod, c.Name)
	if !has || !found {
		return false
	}
	wanted, _ := held.named(in)
	slices.Sort(present)
	slices.Sort(wanted)
	return slices.Equal(present, wanted)
}

// HasRotatedKey reports whether a pod of the component has a key of a kind that a rotation made. Files that kinds share do not count.
func (c Component) HasRotatedKey(kind *KeyKind, pod *corev1.PodSpec) bool {
	held, _ := c.Keys.of(kind)
	if held.Members != nil {
		// The file with CAs for peers is of the kind that members use. All else may tell of another kind.
		return held.Uses && slices.ContainsFunc(mounted(pod), func(item corev1.KeyToPath) bool {
			return item.Path == MemberCAs && item.Key != item.Path
		})
	}
	held.Arguments = slices.DeleteFunc(slices.Clone(held.Arguments), func(a KeyArgument) bool { return a.Shared || a.Yields })
	present, _ := held.present(pod, c.Name)
	madeWith, _ := held.named(&Input{})
	return slices.ContainsFunc(present, func(arg string) bool {
		_, file, _ := strings.Cut(arg, "=")
		ours := strings.HasPrefix(file, KeyMaterialDirectory+"/") || strings.HasPrefix(file, RotatedCertsDirectory+"/")
		return ours && !slices.Contains(madeWith, arg)
	})
}
