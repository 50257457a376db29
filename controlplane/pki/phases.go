package pki

import (
	"slices"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
)

// PodFiles are the files of a kind of key that pods have, by what their names end in: empty for the key that the tenant was made with.
type PodFiles struct {
	// Trusted are the keys that are trusted.
	Trusted []string
	// Used is the key that signs or writes, and of a CA the one by which programs have the certificates that they show as clients.
	Used string
	// Shown is the CA by which programs have the certificates that they show as servers.
	Shown string
}

// isShownLate reports whether servers show certificates by the former CA until a person asks for the end. Programs and people all over a
// tenant verify its API servers by the cluster CA: whoever trusts the former one alone goes on until then.
func isShownLate(kind string) bool { return kind == string(ClusterCA) }

// filesIn are the files that pods have in a phase of a rotation.
func filesIn(phase rotation.Phase, former, next string, shownLate bool) PodFiles {
	files := PodFiles{Trusted: []string{former, next}, Used: next, Shown: next}
	switch phase {
	case rotation.Trusting:
		files.Used, files.Shown = former, former
	case rotation.Using, rotation.Prepared:
		if shownLate {
			files.Shown = former
		}
	default:
		files.Trusted = []string{next}
	}
	return files
}

// allFilesIn are the files that pods have in a phase, and those of the phase before it while pods of that one run.
func allFilesIn(phase rotation.Phase, former, next string, shownLate bool) []PodFiles {
	present := filesIn(phase, former, next, shownLate)
	switch phase {
	case rotation.Trusting:
		return []PodFiles{{Trusted: []string{former}, Used: former, Shown: former}, present}
	case rotation.Using:
		return []PodFiles{filesIn(rotation.Trusting, former, next, shownLate), present}
	case rotation.Dropping:
		return []PodFiles{filesIn(rotation.Prepared, former, next, shownLate), present}
	}
	return []PodFiles{present}
}

// Files are the files of a kind of key that pods have in the phase of its rotation. They are zero for a key that was never rotated.
func (m *KeyMaterial) Files(kind string) PodFiles {
	r := m.rotations[kind]
	if r == nil {
		return PodFiles{}
	}
	return filesIn(r.Phase, r.FormerFile, r.File(), isShownLate(kind))
}

// AllFiles are the files of a kind of key that pods have in the phase of its rotation, and those of the phase before it while pods of that
// one run.
func (m *KeyMaterial) AllFiles(kind string) []PodFiles {
	r := m.rotations[kind]
	if r == nil {
		return []PodFiles{{Trusted: []string{""}}}
	}
	return allFilesIn(r.Phase, r.FormerFile, r.File(), isShownLate(kind))
}

// Signing are the CAs of a signer by which programs show certificates as clients in the phase of its rotation, by what the names of their
// files end in. While pods come to use the new CA both sign, because pods of both phases run. The new CA signs nothing before every pod
// trusts it, and the former CA signs nothing once no pod shows a certificate by it.
func (m *KeyMaterial) Signing(signer Signer) []string {
	return m.distinct(signer, func(f PodFiles) string { return f.Used })
}

// Showing are the CAs of a signer by which programs show certificates as servers, in the same way.
func (m *KeyMaterial) Showing(signer Signer) []string {
	return m.distinct(signer, func(f PodFiles) string { return f.Shown })
}

func (m *KeyMaterial) distinct(signer Signer, of func(PodFiles) string) []string {
	var files []string
	for _, all := range m.AllFiles(string(signer)) {
		if file := of(all); !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	return files
}

// TrustedSets are the sets of CAs of a signer that pods trust, by what the names of their files end in. There are two while pods of two phases
// run.
func (m *KeyMaterial) TrustedSets(signer Signer) [][]string {
	var sets [][]string
	for _, all := range m.AllFiles(string(signer)) {
		if !slices.ContainsFunc(sets, func(set []string) bool { return slices.Equal(set, all.Trusted) }) {
			sets = append(sets, all.Trusted)
		}
	}
	return sets
}

// ClientTrust are the CAs of a signer by which clients verify servers, by what the names of their files end in: those of the phase, and the
// one by which servers of the phase before show certificates. It is empty for a signer that was never rotated.
func (m *KeyMaterial) ClientTrust(signer Signer) []string {
	trusted := slices.Clone(m.Files(string(signer)).Trusted)
	for _, file := range m.Showing(signer) {
		if len(trusted) > 0 && !slices.Contains(trusted, file) {
			trusted = append([]string{file}, trusted...)
		}
	}
	return trusted
}
