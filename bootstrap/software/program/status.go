package program

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/disk"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/store"
)

// Status is what is installed on a machine.
type Status struct {
	// Document and Version are those of the last document that was installed.
	Document string `json:"document,omitempty"`
	Version  string `json:"version,omitempty"`
	// Complete says that an install has succeeded on this machine.
	Complete   bool              `json:"complete"`
	Components []ComponentStatus `json:"components"`
	// Result is that of the last run.
	Result *software.Result `json:"result,omitempty"`
}

// ComponentStatus is one component of it. Revisions are named by their digests.
type ComponentStatus struct {
	Name string `json:"name"`
	// Revision is the one in use, Working the one that worked last, Before the one before that.
	Revision string `json:"revision,omitempty"`
	Working  string `json:"working,omitempty"`
	Before   string `json:"before,omitempty"`
	// State is Working, Unchecked, Unfinished or Absent.
	State string   `json:"state"`
	Unit  string   `json:"unit,omitempty"`
	Paths []string `json:"paths,omitempty"`
	// Failed are revisions whose check failed, and what it said.
	Failed map[string]string `json:"failed,omitempty"`
}

// ReadStatus reads what is installed. It changes nothing, and does not wait for another run to end.
func ReadStatus(d *disk.Disk) (Status, error) {
	s, err := store.Open(d)
	if err != nil {
		return Status{}, err
	}
	status := Status{Document: s.State.Document, Version: s.State.Version, Complete: s.State.Complete, Components: []ComponentStatus{}}
	for _, entry := range s.State.Components {
		c, err := componentStatus(s, entry)
		if err != nil {
			return status, err
		}
		status.Components = append(status.Components, c)
	}
	status.Result, err = readResult(d)
	return status, err
}

func componentStatus(s *store.Store, entry *store.Component) (ComponentStatus, error) {
	c := ComponentStatus{Name: entry.Name, Working: entry.Working, Before: entry.Before, Failed: entry.Failed}
	current, err := s.Current(entry.Name)
	if err != nil {
		return c, err
	}
	c.Revision, c.State = current, "Unchecked"
	switch {
	case entry.Unsettled:
		c.State = "Unfinished"
	case current == "":
		c.State = "Absent"
		return c, nil
	case current == entry.Working:
		c.State = "Working"
	}
	if current == "" {
		return c, nil
	}
	m, err := s.Manifest(entry.Name, current)
	c.Unit, c.Paths = m.Unit, m.Paths
	return c, err
}

// readResult is the Result of the last run; nil if there was none.
func readResult(d *disk.Disk) (*software.Result, error) {
	data, err := d.Read(software.ResultFile, maxResult)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	result := &software.Result{}
	if err == nil {
		err = json.Unmarshal(data, result)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", software.ResultFile, err)
	}
	return result, nil
}

// lastAvoided are the sources that the last install avoided. A check keeps them in its own result.
func (p *Program) lastAvoided() []string {
	result, err := readResult(p.Disk)
	if err != nil || result == nil {
		return nil
	}
	return result.Avoided
}
