package store

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// keepOriginal keeps a file at a path that is not ours.
func (s *Store) keepOriginal(path string) error {
	there, err := s.Disk.Exists(path)
	if err != nil || !there {
		return err
	}
	if err := s.Disk.MakeFolder(filepath.Dir(originalsDir + path)); err != nil {
		return err
	}
	return s.Disk.Move(path, originalsDir+path)
}

// removeEmpty removes empty folders of originals.
func (s *Store) removeEmpty(folder string) error {
	for ; strings.HasPrefix(folder, originalsDir); folder = filepath.Dir(folder) {
		if gone, err := s.Disk.RemoveFolder(folder); err != nil || !gone {
			return err
		}
	}
	return nil
}

// makeFolders makes folders. It notes them before it makes them.
func (s *Store) makeFolders(folder string) error {
	missing, err := s.Disk.MissingFolders(folder)
	if err != nil || len(missing) == 0 {
		return err
	}
	for _, f := range missing {
		if !slices.Contains(s.State.Folders, f) {
			s.State.Folders = append(s.State.Folders, f)
		}
	}
	if err := s.Save(); err != nil {
		return err
	}
	return s.Disk.MakeFolder(folder)
}

// RemoveFolders removes folders that we made and that are empty.
func (s *Store) RemoveFolders() error {
	var left []string
	for _, folder := range slices.Backward(s.State.Folders) {
		gone, err := s.Disk.RemoveFolder(folder)
		if err != nil {
			return err
		}
		if !gone {
			left = append(left, folder)
		}
	}
	slices.Reverse(left)
	s.State.Folders = left
	return s.Save()
}

// WriteFile writes a file that is no component's.
func (s *Store) WriteFile(path string, content []byte, mode fs.FileMode) error {
	if err := s.makeFolders(filepath.Dir(path)); err != nil {
		return err
	}
	if err := s.Disk.Write(path, content, mode); err != nil {
		return fmt.Errorf("write %s: %w", path, s.Disk.Full(path, err))
	}
	return nil
}
