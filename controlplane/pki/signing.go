package pki

import (
	"fmt"
	"slices"
)

// TrustedFile is the data key of a file with CAs that pods trust, in the host cluster's copy. files are what the names of their own files
// end in. Without files it is certKey, the file of the CA that the tenant was made with.
func TrustedFile(certKey string, files ...string) string {
	switch len(files) {
	case 0:
		return certKey
	case 1:
		return KeyFile(certKey, files[0])
	}
	return joinedFile(certKey, files...)
}

// TrustedFileOfBoth is the name of a file with CAs of two signers. files and others are what the names of their own files end in: none for a
// signer that never rotated. It is certKey if neither signer ever rotated.
func TrustedFileOfBoth(certKey string, files, others []string) string {
	if isFirst(files) && isFirst(others) {
		return certKey
	}
	return joinedFile(certKey, slices.Concat(orFirst(files), []string{"and"}, orFirst(others))...)
}

// isFirst reports whether the CA that the tenant was made with is trusted alone.
func isFirst(files []string) bool { return slices.Equal(orFirst(files), []string{""}) }

func orFirst(files []string) []string {
	if len(files) == 0 {
		return []string{""}
	}
	return files
}

// Bundle has the certificates of CAs of a signer, as PEM. files are what the names of their files end in.
func (m *KeyMaterial) Bundle(signer Signer, files ...string) ([]byte, error) {
	var bundle []byte
	for _, file := range orFirst(files) {
		ca, err := m.CAByFile(signer, file)
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

// CAByFile is the CA of a signer whose file names end in file. It fails for a CA of another rotation: the caller is late then, and a leaf by
// the present CA would be wrong under the name of that one.
func (m *KeyMaterial) CAByFile(signer Signer, file string) (*CA, error) {
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

// RotatingCAs are the certificates of the former and of the new CA of a signer, as PEM; nil for a signer that does not rotate.
func (m *KeyMaterial) RotatingCAs(signer Signer) (former, next []byte) {
	r := m.rotations[string(signer)]
	if r == nil || !r.UnderWay() {
		return nil, nil
	}
	return m.parts[string(signer)][publicPart], r.parts[publicPart]
}
