// Package figures keeps what a step of the tests or benchmarks measured, in a file that whoever runs several steps can read.
package figures

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Folder is where steps write their figures, from the top folder of the repository.
const Folder = "out/figures"

// Figure is one measured number.
type Figure struct {
	Name string `json:"name"`
	// Value is as it is printed, with as many digits as mean something.
	Value json.Number `json:"value"`
	// Unit may say more, as in "s to 5 members".
	Unit string `json:"unit,omitempty"`
	// Scenario is what was measured, when a step measures the same several times.
	Scenario string `json:"scenario,omitempty"`
}

// New makes a figure of a number, or of the text of one.
func New(name string, value any, unit string) Figure {
	return Figure{Name: name, Value: json.Number(fmt.Sprint(value)), Unit: unit}
}

// String is the line that is printed for people and for whoever compares runs.
func (f Figure) String() string { return fmt.Sprintf("figure %s %s %s", f.Name, f.Value, f.Unit) }

// Write keeps the figures of a step in Folder, in place of those that it wrote before.
func Write(step string, all []Figure) error {
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("write the figures of %s: %w", step, err)
	}
	if err := os.MkdirAll(Folder, 0o755); err != nil {
		return err
	}
	return os.WriteFile(file(step), append(data, '\n'), 0o644)
}

// Read gives the figures that a step wrote; none when it wrote none.
func Read(step string) ([]Figure, error) {
	data, err := os.ReadFile(file(step))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Figure
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("read the figures of %s: %w", step, err)
	}
	return all, nil
}

// Forget removes what a step wrote before.
func Forget(step string) error {
	if err := os.Remove(file(step)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func file(step string) string { return filepath.Join(Folder, step+".json") }
