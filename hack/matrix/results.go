package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
)

// result is what a step ended with. It is kept in a file, so that several runs on one commit can share a table.
type result struct {
	// Commit is what was tested.
	Commit string
	// Rows are the step's own, and one for each of its specs.
	Rows []row
	// Figures are what it measured.
	Figures []figures.Figure
}

// commit names what is tested. A "+" after it means that the tree has changes of its own.
func commit() string {
	head, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	name := strings.TrimSpace(string(head))
	if changes, err := exec.Command("git", "status", "--porcelain").Output(); err != nil || len(changes) > 0 {
		name += changed
	}
	return name
}

const changed = "+"

// ran reports whether the step ran at all.
func (r result) ran() bool { return len(r.Rows) > 0 && r.Rows[0].Outcome != notRun }

// failed reports whether anything of the step failed or did not run.
func (r result) failed() bool {
	for _, row := range r.Rows {
		if row.Outcome != passed && row.Outcome != skipped {
			return true
		}
	}
	return false
}

// notRun is the result of a step that did not run.
func (s step) notRun(commit, why string) result {
	return result{Commit: commit, Rows: []row{{Name: s.title(), Outcome: notRun, Note: why}}}
}

// save keeps the result of a step in a folder.
func (r result) save(folder string, s step) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("keep the result of %s: %w", s.name, err)
	}
	return os.WriteFile(resultFile(folder, s), data, 0o644)
}

// earlier is the result of a step of another part, in an earlier run on the same commit. A tree with changes of its own
// has no earlier results: nobody knows which changes they were of.
func earlier(folder string, s step, commit string) (result, error) {
	none := s.notRun(commit, "no run on this commit")
	if strings.HasSuffix(commit, changed) {
		return none, nil
	}
	data, err := os.ReadFile(resultFile(folder, s))
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	var kept result
	if err := json.Unmarshal(data, &kept); err != nil {
		return none, fmt.Errorf("read the result of %s: %w", s.name, err)
	}
	if kept.Commit != commit {
		return none, nil
	}
	return kept, nil
}

func resultFile(folder string, s step) string { return filepath.Join(folder, s.name+".json") }
