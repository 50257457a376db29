package components

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// present are the arguments of a pod that name files; false for a pod of another component.
func (h keyHolder) present(pod *corev1.PodSpec) ([]string, bool) {
	i := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == h.component })
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

// AreOf reports whether a pod of a component has the files of its phase.
func (k KeyKind) AreOf(in *Input, component string, pod *corev1.PodSpec) bool {
	holder, has := k.holder(component)
	if has && holder.members != nil {
		wanted := holder.members.common(in)
		if slices.Equal(wanted, holder.members.common(&Input{})) {
			wanted = nil
		}
		return slices.Equal(mounted(pod), wanted)
	}
	holder.arguments = slices.DeleteFunc(slices.Clone(holder.arguments), func(a keyArgument) bool { return a.yields })
	present, found := holder.present(pod)
	if !has || !found {
		return false
	}
	wanted, _ := holder.named(in)
	slices.Sort(present)
	slices.Sort(wanted)
	return slices.Equal(present, wanted)
}

// IsRotated reports whether a pod of a component has a key that a rotation made. Files that kinds share do not count.
func (k KeyKind) IsRotated(component string, pod *corev1.PodSpec) bool {
	holder, _ := k.holder(component)
	if holder.members != nil {
		// The file with CAs for peers is of the kind that members use. All else may tell of another kind.
		return holder.uses && slices.ContainsFunc(mounted(pod), func(item corev1.KeyToPath) bool {
			return item.Path == MemberCAs && item.Key != item.Path
		})
	}
	holder.arguments = slices.DeleteFunc(slices.Clone(holder.arguments), func(a keyArgument) bool { return a.shared || a.yields })
	present, _ := holder.present(pod)
	madeWith, _ := holder.named(&Input{})
	return slices.ContainsFunc(present, func(arg string) bool {
		_, file, _ := strings.Cut(arg, "=")
		ours := strings.HasPrefix(file, KeyMaterialDirectory+"/") || strings.HasPrefix(file, RotatedCertsDirectory+"/")
		return ours && !slices.Contains(madeWith, arg)
	})
}
