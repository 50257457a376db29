package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

// copied reports whether a path gets a copy rather than a link: systemctl resolves links of units when it enables them, and
// removes them when it disables them.
func copied(path string) bool { return strings.HasPrefix(path, onworker.UnitDir) }

// linkTo is where the link at a path of a component leads to.
func (s *Store) linkTo(name, path string) string {
	return s.Disk.Place(componentDir(name) + currentLink + path)
}

// Switch makes the machine use a revision. One rename switches all paths that the old and the new revision share.
func (s *Store) Switch(name, digest string) error {
	m, err := s.Manifest(name, digest)
	if err != nil {
		return err
	}
	for _, path := range m.Paths {
		if err := s.refuse(name, path); err != nil {
			return err
		}
	}
	current, err := s.Current(name)
	if err != nil {
		return err
	}
	if current != digest {
		if err := s.Disk.SwitchLink(digest, componentDir(name)+currentLink); err != nil {
			return fmt.Errorf("switch to revision %.12s: %w", digest, s.Disk.Full(software.Dir, err))
		}
	}
	for _, path := range m.Paths {
		if err := s.put(name, path); err != nil {
			return fmt.Errorf("put %s in place: %w", path, s.Disk.Full(path, err))
		}
	}
	return s.takeAwayBut(name, m.Paths)
}

// takeAwayBut removes paths of other revisions than the one in use.
func (s *Store) takeAwayBut(name string, keep []string) error {
	paths, _, err := s.Everything(name)
	if err != nil {
		return err
	}
	for _, path := range paths {
		if slices.Contains(keep, path) {
			continue
		}
		if err := s.takeAway(name, path); err != nil {
			return fmt.Errorf("take %s away: %w", path, s.Disk.Full(path, err))
		}
	}
	return nil
}

// Undo removes everything of a component, and puts back what was there before.
func (s *Store) Undo(name string) error {
	if err := s.takeAwayBut(name, nil); err != nil {
		return err
	}
	if err := s.Disk.Remove(componentDir(name) + currentLink); err != nil {
		return err
	}
	return s.RemoveFolders()
}

// ownerBeside is the other component that owns a path; empty for none.
func (s *Store) ownerBeside(name, path string) (string, error) {
	for _, entry := range s.State.Components {
		if entry.Name != name && slices.Contains(entry.Copies, path) {
			return entry.Name, nil
		}
	}
	target, err := s.Disk.Target(path)
	if err != nil {
		return "", err
	}
	owner, ok := strings.CutPrefix(target, s.Disk.Place(componentsDir)+"/")
	if owner, _, _ = strings.Cut(owner, "/"); !ok || owner == name {
		return "", nil
	}
	return owner, nil
}

// refuse fails when a path must not be replaced. It is called before anything is replaced.
func (s *Store) refuse(name, path string) error {
	other, err := s.ownerBeside(name, path)
	if err != nil {
		return err
	}
	if other != "" {
		return fmt.Errorf("%s belongs to the component %s; give one of them another path", path, other)
	}
	info, err := os.Lstat(s.Disk.Place(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0 {
		err = fmt.Errorf("%s is a folder or a device on this machine, and not a file; choose another path", path)
	}
	return err
}

func (s *Store) put(name, path string) error {
	if err := s.makeFolders(filepath.Dir(path)); err != nil {
		return err
	}
	if copied(path) {
		return s.putCopy(name, path)
	}
	target, err := s.Disk.Target(path)
	if err != nil || target == s.linkTo(name, path) {
		return err
	}
	if err := s.keepOriginal(path); err != nil {
		return err
	}
	return s.Disk.Link(s.linkTo(name, path), path)
}

func (s *Store) putCopy(name, path string) error {
	if entry := s.Entry(name); !slices.Contains(entry.Copies, path) {
		if err := s.keepOriginal(path); err != nil {
			return err
		}
		entry.Copies = append(entry.Copies, path)
		if err := s.Save(); err != nil {
			return err
		}
	}
	same, content, mode, err := s.sameAsStaged(name, path)
	if err != nil || same {
		return err
	}
	return s.Disk.Write(path, content, mode)
}

// maxCopy bounds a copied file. No file of a document is as long.
const maxCopy = 1 << 20

func (s *Store) sameAsStaged(name, path string) (same bool, content []byte, mode fs.FileMode, err error) {
	staged := componentDir(name) + currentLink + path
	if content, err = s.Disk.Read(staged, maxCopy); err != nil {
		return false, nil, 0, err
	}
	info, err := os.Stat(s.Disk.Place(staged))
	if err != nil {
		return false, nil, 0, err
	}
	is, err := os.Lstat(s.Disk.Place(path))
	if errors.Is(err, fs.ErrNotExist) {
		return false, content, info.Mode().Perm(), nil
	}
	if err != nil || is.Mode() != info.Mode() {
		return false, content, info.Mode().Perm(), err
	}
	has, err := s.Disk.Read(path, maxCopy)
	return err == nil && bytes.Equal(has, content), content, info.Mode().Perm(), nil
}

// takeAway removes a path of a component, and puts back what was at the path before.
func (s *Store) takeAway(name, path string) error {
	if other, err := s.ownerBeside(name, path); err != nil || other != "" {
		return err
	}
	original := originalsDir + path
	kept, err := s.Disk.Exists(original)
	if err != nil {
		return err
	}
	if copied(path) {
		if err := s.takeCopyAway(name, path); err != nil {
			return err
		}
	}
	target, err := s.Disk.Target(path)
	if err != nil {
		return err
	}
	there, err := s.Disk.Exists(path)
	if err != nil {
		return err
	}
	ours := target == s.linkTo(name, path)
	switch {
	case kept && (ours || !there):
		err = s.Disk.Move(original, path)
	case kept:
		// Another program has put something there since: that stays.
		err = s.Disk.Remove(original)
	case ours:
		err = s.Disk.Remove(path)
	}
	if err != nil {
		return err
	}
	return s.removeEmpty(filepath.Dir(original))
}

// takeCopyAway removes a copy, then the note about it, and only then puts the original back: so a path with a note never has
// an original.
func (s *Store) takeCopyAway(name, path string) error {
	entry := s.Find(name)
	if entry == nil || !slices.Contains(entry.Copies, path) {
		return nil
	}
	if err := s.Disk.Remove(path); err != nil {
		return err
	}
	entry.Copies = slices.DeleteFunc(entry.Copies, func(p string) bool { return p == path })
	return s.Save()
}

// InOrder reports whether the machine uses a revision and all its paths are intact.
func (s *Store) InOrder(name, digest string) (bool, error) {
	current, err := s.Current(name)
	if err != nil || current != digest {
		return false, err
	}
	m, err := s.Manifest(name, digest)
	if err != nil {
		return false, err
	}
	for _, path := range m.Paths {
		right := false
		if copied(path) {
			right, _, _, err = s.sameAsStaged(name, path)
		} else {
			var target string
			target, err = s.Disk.Target(path)
			right = target == s.linkTo(name, path)
		}
		if err != nil || !right {
			return false, err
		}
	}
	return true, nil
}
