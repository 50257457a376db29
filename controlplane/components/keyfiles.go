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

// NeverRotated reports whether the tenant has the one key that it was made with, and no other.
func (f KeyFiles) NeverRotated() bool { return len(f.Trusted) == 0 && f.Used == "" && f.Shown == "" }

// HeldKeys are the keys that pods of a component have, of each kind that rotates.
type HeldKeys []HeldKey

// HeldKey is how pods of a component have keys of a kind.
type HeldKey struct {
	Kind *KeyKind
	// Trusts is false for a component that only uses a key, and Uses is false for a component that only trusts it. Such a component does
	// not restart when others come to trust, or to use, another key.
	Trusts, Uses bool
	// Shows is true for a component that shows certificates as a server to those who verify them by the cluster CA.
	Shows bool
	// Arguments name files. Members of etcd have no such arguments: they find their files under paths that stay the same.
	Arguments []KeyArgument
	Members   *MemberFiles
	// Further are files in the Secret of the component's certificates that no argument names, such as those that a kubeconfig names. They are
	// mounted with others that a rotation made.
	Further func(*Input) []string
}

// KeyArgument is an argument that names files.
type KeyArgument struct {
	Name  string
	Files func(*Input) []string
	// OfComponent is true for files that are in the Secret of the component's certificates.
	OfComponent bool
	// Shared is true for files that also have keys of another kind.
	Shared bool
	// Yields is true for an argument that users may give. Theirs stays, and so this argument does not tell which keys a pod has.
	Yields bool
}

// MemberFiles are the files that members of an etcd find under the same paths in each phase, whatever their names are in the Secret of
// certificates.
type MemberFiles struct {
	// CAs are the files with CAs that members trust.
	CAs func(*Input) []corev1.KeyToPath
	// Used is what the names of leaves end in that members show.
	Used func(*Input) string
}

// common are the files that all members have.
func (f *MemberFiles) common(in *Input) []corev1.KeyToPath {
	used := f.Used(in)
	return append(f.CAs(in), leafAs(MemberClient, used, ".crt"), leafAs(MemberClient, used, ".key"))
}

// leafAs is a file of the leaf that the CA in use has signed, under the path that it has without a rotation.
func leafAs(name, used, ending string) corev1.KeyToPath {
	return corev1.KeyToPath{Key: certificates.LeafName(name, used) + ending, Path: name + ending}
}

func (k HeldKeys) of(kind *KeyKind) (HeldKey, bool) {
	i := slices.IndexFunc(k, func(h HeldKey) bool { return h.Kind == kind })
	if i < 0 {
		return HeldKey{}, false
	}
	return k[i], true
}

// reduced are the files that pods depend on.
func (h HeldKey) reduced(files KeyFiles) KeyFiles {
	if !h.Trusts {
		files.Trusted = nil
	}
	if !h.Uses {
		files.Used = ""
	}
	if !h.Shows {
		files.Shown = ""
	}
	return files
}

// Reduce leaves the files in an input that pods of the component depend on.
func (k HeldKeys) Reduce(in *Input) {
	for _, kind := range keyKinds {
		held, _ := k.of(kind)
		files := kind.In(in)
		*files = held.reduced(*files)
	}
}
