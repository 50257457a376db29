package pki

import (
	"fmt"
	"slices"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
)

// signsIn reports which CA signs leaves in a phase of its rotation. While pods come to use the new one, leaves of both are kept: pods of
// both phases run. No leaf of the new one is there before every pod trusts it, and none of the former one when no pod shows it any more.
func signsIn(phase rotation.Phase) (former, next bool) {
	switch phase {
	case rotation.Trusting:
		return true, false
	case rotation.Using:
		return true, true
	}
	return false, true
}

// Signing are the CAs of a signer that sign leaves in the phase of its rotation, as what the names of their files end in.
func (m *KeyMaterial) Signing(signer Signer) []string {
	r := m.rotations[string(signer)]
	if r == nil {
		return []string{""}
	}
	var files []string
	former, next := signsIn(r.Phase)
	if former {
		files = append(files, r.FormerFile)
	}
	if next {
		files = append(files, r.File())
	}
	return files
}

// BySigning is a leaf of each CA that signs in the phase of its signer's rotation, each with a name of its own.
func (m *KeyMaterial) BySigning(leaf Leaf) []Leaf {
	var leaves []Leaf
	for _, file := range m.Signing(leaf.Signer) {
		signed := leaf
		signed.Name, signed.SignerFile = LeafName(leaf.Name, file), file
		leaves = append(leaves, signed)
	}
	return leaves
}

// LeafName is the name of a leaf that a CA signs, which is given as the names of its files end in it. A pod that mounts the leaf gets one
// of this CA or does not start.
func LeafName(name, signerFile string) string { return KeyFile(name, signerFile) }

// TrustedFile is the data key of the file with the CAs that are trusted, in the host cluster's copy. certKey is that of the one that the
// tenant was made with, which is meant without files.
func TrustedFile(certKey string, files ...string) string {
	switch len(files) {
	case 0:
		return certKey
	case 1:
		return KeyFile(certKey, files[0])
	}
	return joinedFile(certKey, files...)
}

// TrustedFileOfBoth is the name of a file with CAs of two signers, where files are what the names of the CAs end in: none for a signer that
// never rotated. It is certKey where neither has.
func TrustedFileOfBoth(certKey string, files, others []string) string {
	if isFirst(files) && isFirst(others) {
		return certKey
	}
	return joinedFile(certKey, slices.Concat(orFirst(files), []string{"and"}, orFirst(others))...)
}

// isFirst reports whether the one CA that is trusted is the one that the tenant was made with.
func isFirst(files []string) bool { return slices.Equal(orFirst(files), []string{""}) }

func orFirst(files []string) []string {
	if len(files) == 0 {
		return []string{""}
	}
	return files
}

// trustedIn are the sets of CAs of a rotation that pods trust in a phase: those of the phase, and those of the one before, whose pods run
// still.
func trustedIn(phase rotation.Phase, former, next string) [][]string {
	switch phase {
	case rotation.Trusting:
		return [][]string{{former}, {former, next}}
	case rotation.Using, rotation.Prepared:
		return [][]string{{former, next}}
	case rotation.Dropping:
		return [][]string{{former, next}, {next}}
	}
	return [][]string{{next}}
}

// TrustedSets are the sets of CAs of a signer that pods trust, as what the names of their files end in. While a phase begins, pods of two
// run.
func (m *KeyMaterial) TrustedSets(signer Signer) [][]string {
	r := m.rotations[string(signer)]
	if r == nil {
		return [][]string{{""}}
	}
	return trustedIn(r.Phase, r.FormerFile, r.File())
}

// Bundle are the certificates of CAs of a signer, as PEM, which are given as the names of their files end in.
func (m *KeyMaterial) Bundle(signer Signer, files ...string) ([]byte, error) {
	var bundle []byte
	for _, file := range orFirst(files) {
		ca, err := m.issuer(signer, file)
		if err != nil {
			return nil, err
		}
		if bundle == nil {
			bundle = ca.Bundle
		} else {
			bundle = joined(bundle, ca.Bundle)
		}
	}
	return bundle, nil
}

// issuer is the CA of a signer of which the names of files end so. A CA of another rotation is none: what asks for it is late, and a leaf
// by the present one would be a wrong one under that name.
func (m *KeyMaterial) issuer(signer Signer, file string) (*CA, error) {
	ca := m.CA(signer)
	if ca == nil {
		return nil, fmt.Errorf("there is no certificate authority %q", signer)
	}
	r := m.rotations[string(signer)]
	switch {
	case r == nil && file == "", r != nil && r.UnderWay() && file == r.FormerFile:
		return ca, nil
	case r != nil && file == r.File():
		next, err := parseCA(r.parts)
		if err != nil {
			return nil, fmt.Errorf("read the new %s: %w", signer, err)
		}
		return &next, nil
	}
	return nil, fmt.Errorf("there is no %s %q in its present rotation", signer, file)
}

// RotatingCAs are the certificates of a CA that rotates: those of the former one, and those of the new one. They are nil for one that
// does not.
func (m *KeyMaterial) RotatingCAs(signer Signer) (former, next []byte) {
	r := m.rotations[string(signer)]
	if r == nil || !r.UnderWay() {
		return nil, nil
	}
	return m.parts[string(signer)][publicPart], r.parts[publicPart]
}
