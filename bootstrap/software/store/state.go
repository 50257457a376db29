// Package store keeps revisions of components on a machine: it stages them beside each other, switches between them, and
// puts back what was there before. Every step can be cut off and repeated.
package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/disk"
)

// Places below software.Dir.
const (
	stateFile     = software.Dir + "state.json"
	componentsDir = software.Dir + "components/"
	originalsDir  = software.Dir + "originals"
	currentLink   = "current"
)

// State has what cannot be seen on the disk.
type State struct {
	// Document and Version are those of the last document that was installed, or tried.
	Document string `json:"document,omitempty"`
	Version  string `json:"version,omitempty"`
	// Complete says that an install has succeeded on this machine.
	Complete bool `json:"complete,omitempty"`
	// Components are in the order in which they were installed.
	Components []*Component `json:"components,omitempty"`
	// Folders were made for files of components, the higher ones first.
	Folders []string `json:"folders,omitempty"`
	// Sysctls are the values that sysctls had before.
	Sysctls map[string]string `json:"sysctls,omitempty"`
}

// Component has the notes about one component. Revisions are named by their digests.
type Component struct {
	Name string `json:"name"`
	// Wanted is the revision of the last document.
	Wanted string `json:"wanted,omitempty"`
	// Working is the revision that worked last, and Before the one before that; both stay on the disk.
	Working string `json:"working,omitempty"`
	Before  string `json:"before,omitempty"`
	// Failed are revisions whose check failed, with its error. They are tried again only when a person asks for it.
	Failed map[string]string `json:"failed,omitempty"`
	// Unsettled is true when files changed, or are about to, and the unit was not restarted and checked since.
	Unsettled bool `json:"unsettled,omitempty"`
	// Check is that of the document.
	Check bootstrapv1.SoftwareCheck `json:"check,omitzero"`
	// Copies are paths that have copies of this component's files rather than links to them.
	Copies []string `json:"copies,omitempty"`
	// Units are the states that units had before the component came.
	Units map[string]Unit `json:"units,omitempty"`
}

// Unit is the state of a unit before the component was installed.
type Unit struct {
	Enabled bool `json:"enabled,omitempty"`
	Active  bool `json:"active,omitempty"`
}

// Store is all that the program keeps on a machine.
type Store struct {
	Disk  *disk.Disk
	State State

	saved []byte
}

// maxState bounds the state file. No state is as long.
const maxState = 8 << 20

// Open reads the state of a machine; one without has an empty state.
func Open(d *disk.Disk) (*Store, error) {
	s := &Store{Disk: d}
	data, err := d.Read(stateFile, maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &s.State)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", stateFile, err)
	}
	s.saved = data
	return s, nil
}

// Save writes the state if it changed.
func (s *Store) Save() error {
	data, err := json.MarshalIndent(s.State, "", "  ")
	if err != nil {
		return err
	}
	data = append(data, '\n')
	if bytes.Equal(data, s.saved) {
		return nil
	}
	if err := s.Disk.MakeFolder(software.Dir); err != nil {
		return err
	}
	if err := s.Disk.Write(stateFile, data, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", stateFile, s.Disk.Full(software.Dir, err))
	}
	s.saved = data
	return nil
}

// Find returns the notes about a component; nil for none.
func (s *Store) Find(name string) *Component {
	for _, c := range s.State.Components {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// Entry returns the notes about a component. A component without notes gets empty ones.
func (s *Store) Entry(name string) *Component {
	if c := s.Find(name); c != nil {
		return c
	}
	c := &Component{Name: name}
	s.State.Components = append(s.State.Components, c)
	return c
}

// Forget drops the notes about a component, and its revisions. Its paths must be gone already.
func (s *Store) Forget(name string) error {
	if err := s.removeBut(name, nil); err != nil {
		return err
	}
	if err := s.Disk.RemoveAll(componentsDir + name); err != nil {
		return err
	}
	s.State.Components = slices.DeleteFunc(s.State.Components, func(c *Component) bool { return c.Name == name })
	return s.Save()
}

// SetOrder puts the components in the order of names; others come first.
func (s *Store) SetOrder(names []string) {
	slices.SortStableFunc(s.State.Components, func(a, b *Component) int {
		return slices.Index(names, a.Name) - slices.Index(names, b.Name)
	})
}
