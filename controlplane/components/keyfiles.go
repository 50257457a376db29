package components

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/certificates"
)

// KeyFiles are the files of a kind of key that pods have, by what their names end in: empty for the key that the tenant was made with. The
// zero value is for a tenant whose key never rotated.
type KeyFiles struct {
	// Trusted are the keys that verify or read, Used is the one that signs or writes.
	Trusted []string `json:"trusted,omitempty"`
	Used    string   `json:"used,omitempty"`
	// Shown is the cluster CA by which servers show certificates. Others show all certificates by the CA in use.
	Shown string `json:"shown,omitempty"`
}

// isZero reports whether the key never rotated.
func (f KeyFiles) isZero() bool { return len(f.Trusted) == 0 && f.Used == "" && f.Shown == "" }

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
	// trusts is false for a component that only uses a key, and uses is false for a component that only trusts it. Such a component does
	// not restart when others come to trust, or to use, another key.
	trusts, uses bool
	// shows is true for a component that shows certificates as a server to those who verify them by the cluster CA.
	shows bool
	// arguments name files. Members of etcd have no such arguments: they find their files under paths that stay the same.
	arguments []keyArgument
	members   *memberFiles
	// further are files in the Secret of the component's certificates that no argument names, such as those that a kubeconfig names. They are
	// mounted with others that a rotation made.
	further func(*Input) []string
}

// keyArgument is an argument that names files.
type keyArgument struct {
	name  string
	files func(*Input) []string
	// ofComponent is true for files that are in the Secret of the component's certificates.
	ofComponent bool
	// shared is true for files that also have keys of another kind.
	shared bool
	// yields is true for an argument that users may give. Theirs stays, and so this argument does not tell which keys a pod has.
	yields bool
}

// memberFiles are the files that members of an etcd find under the same paths in each phase, whatever their names are in the Secret of
// certificates.
type memberFiles struct {
	// cas are the files with CAs that members trust.
	cas func(*Input) []corev1.KeyToPath
	// used is what the names of leaves end in that members show.
	used func(*Input) string
}

// common are the files that all members have.
func (f *memberFiles) common(in *Input) []corev1.KeyToPath {
	used := f.used(in)
	return append(f.cas(in), leafAs(MemberClient, used, ".crt"), leafAs(MemberClient, used, ".key"))
}

// leafAs is a file of the leaf that the CA in use has signed, under the path that it has without a rotation.
func leafAs(name, used, ending string) corev1.KeyToPath {
	return corev1.KeyToPath{Key: certificates.LeafName(name, used) + ending, Path: name + ending}
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
	if !holder.shows {
		files.Shown = ""
	}
	return files
}

// ReduceKeys leaves the files in an input that pods of a component depend on.
func ReduceKeys(in *Input, component string) {
	for _, kind := range keyKinds {
		files := kind.In(in)
		*files = kind.of(*files, component)
	}
}
