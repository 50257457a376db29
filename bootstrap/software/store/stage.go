package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
)

// Manifest lists what a revision has on the machine. It is beside the files, so that they can be removed without a document.
type Manifest struct {
	// Paths are those of files on the machine.
	Paths []string `json:"paths,omitempty"`
	// Unit runs the component.
	Unit string `json:"unit,omitempty"`
}

const (
	manifestName = ".kok-software.json"
	partSuffix   = ".part"
	maxManifest  = 64 << 20
)

func componentDir(name string) string { return componentsDir + name + "/" }

// manifestOf returns the path of a revision's manifest. A folder with a manifest is a whole revision: Stage moves a revision into its place in
// one step, and removeBut removes the manifest first. A folder without a manifest is the rest of a removal that was cut off.
func manifestOf(name, digest string) string {
	return componentDir(name) + digest + "/" + manifestName
}

// Staged reports whether a revision is complete on the disk.
func (s *Store) Staged(name, digest string) (bool, error) {
	return s.Disk.Exists(manifestOf(name, digest))
}

// Stage puts a revision on the disk, beside the others. fill writes the files below a folder, and returns their paths.
func (s *Store) Stage(name, digest, unit string, fill func(folder string) ([]string, error)) error {
	if there, err := s.Staged(name, digest); err != nil || there {
		return err
	}
	folder := componentDir(name) + digest
	part := folder + partSuffix
	if err := s.Disk.RemoveAll(part); err != nil {
		return err
	}
	if err := s.Disk.MakeFolder(part); err != nil {
		return s.Disk.Full(software.Dir, err)
	}
	err := s.fill(part, unit, fill)
	if err == nil {
		err = s.Disk.RemoveAll(folder)
	}
	if err == nil {
		err = s.Disk.Rename(part, folder)
	}
	if err != nil {
		return errors.Join(s.Disk.Full(software.Dir, err), s.Disk.RemoveAll(part))
	}
	return nil
}

func (s *Store) fill(part, unit string, fill func(folder string) ([]string, error)) error {
	paths, err := fill(part)
	if err != nil {
		return err
	}
	slices.Sort(paths)
	data, err := json.Marshal(Manifest{Paths: slices.Compact(paths), Unit: unit})
	if err != nil {
		return err
	}
	return s.Disk.Write(filepath.Join(part, manifestName), data, 0o644)
}

// Manifest is that of a revision.
func (s *Store) Manifest(name, digest string) (Manifest, error) {
	var m Manifest
	data, err := s.Disk.Read(manifestOf(name, digest), maxManifest)
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err != nil {
		return m, fmt.Errorf("read what revision %.12s of %s has: %w", digest, name, err)
	}
	return m, nil
}

// Current is the revision that the machine uses. It is empty when the machine uses no revision.
func (s *Store) Current(name string) (string, error) {
	return s.Disk.Target(componentDir(name) + currentLink)
}

// revisions are the manifests of all revisions on the disk.
func (s *Store) revisions(name string) (map[string]Manifest, error) {
	entries, err := os.ReadDir(s.Disk.Place(componentDir(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found := map[string]Manifest{}
	for _, entry := range entries {
		if !entry.IsDir() || filepath.Ext(entry.Name()) == partSuffix {
			continue
		}
		m, err := s.Manifest(name, entry.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found[entry.Name()] = m
	}
	return found, nil
}

// Everything is what all revisions of a component have together: any of it may be on the machine after a run was cut off.
func (s *Store) Everything(name string) (paths, units []string, err error) {
	revisions, err := s.revisions(name)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range revisions {
		paths = append(paths, m.Paths...)
		if m.Unit != "" {
			units = append(units, m.Unit)
		}
	}
	slices.Sort(paths)
	slices.Sort(units)
	return slices.Compact(paths), slices.Compact(units), nil
}

// Names returns the components that have files or notes on the machine, in the order of their installation.
func (s *Store) Names() ([]string, error) {
	var names []string
	for _, c := range s.State.Components {
		names = append(names, c.Name)
	}
	entries, err := os.ReadDir(s.Disk.Place(componentsDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, entry := range entries {
		if !slices.Contains(names, entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// Prune removes revisions other than the current one, the one that works and the one before.
func (s *Store) Prune(name string) error {
	current, err := s.Current(name)
	if err != nil {
		return err
	}
	keep := []string{currentLink, current}
	if entry := s.Find(name); entry != nil {
		keep = append(keep, entry.Working, entry.Before)
	}
	return s.removeBut(name, keep)
}

// removeBut removes all that a component has on the disk, except what is in keep.
func (s *Store) removeBut(name string, keep []string) error {
	entries, err := os.ReadDir(s.Disk.Place(componentDir(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if slices.Contains(keep, entry.Name()) {
			continue
		}
		// Once its manifest is gone, a folder is no revision, however much of it is left. A link is no folder: the revision behind it may stay.
		if entry.IsDir() {
			if err := s.Disk.RemoveSynced(manifestOf(name, entry.Name())); err != nil {
				return err
			}
		}
		if err := s.Disk.RemoveAll(componentDir(name) + entry.Name()); err != nil {
			return err
		}
	}
	return nil
}
