package attack

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

// Outcome is what became of a try.
type Outcome struct {
	// Name is the way, Did what was done, Target what it was to reach.
	Name, Did, Target string
	// Stopped is what came instead.
	Stopped string
	// Succeeded is true where the attacker got what nobody meant to give.
	Succeeded bool
	// Remark says of a success why it is known, or what else is to be said.
	Remark string
}

// Report gathers outcomes.
type Report struct {
	lock     sync.Mutex
	outcomes []Outcome
	controls []string
}

// Add adds an outcome.
func (r *Report) Add(o Outcome) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.outcomes = append(r.outcomes, o)
}

// Control says that something works which a try would use.
func (r *Report) Control(format string, args ...any) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.controls = append(r.controls, fmt.Sprintf(format, args...))
}

// Outcomes are all of them, in the order of their names and targets.
func (r *Report) Outcomes() []Outcome {
	r.lock.Lock()
	defer r.lock.Unlock()
	return slices.Clone(r.outcomes)
}

// Succeeded are the tries that did.
func (r *Report) Succeeded() (list []Outcome) {
	for _, o := range r.Outcomes() {
		if o.Succeeded {
			list = append(list, o)
		}
	}
	return list
}

// Write writes the table of all tries.
func (r *Report) Write(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, err := fmt.Fprintln(table, "TRY\tTARGET\tOUTCOME\tWHAT STOPPED IT\tWHAT WAS DONE")
	errs := []error{err}
	for _, o := range r.Outcomes() {
		outcome := "stopped"
		if o.Succeeded {
			outcome = "SUCCEEDED"
		}
		if o.Remark != "" {
			outcome += " (" + o.Remark + ")"
		}
		_, err := fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", o.Name, o.Target, outcome, short(o.Stopped), o.Did)
		errs = append(errs, err)
	}
	errs = append(errs, table.Flush())
	_, err = fmt.Fprintln(w, "\nControls, each of which a try would use:")
	errs = append(errs, err)
	for _, control := range r.controls {
		_, err := fmt.Fprintln(w, "-", control)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// WriteFile writes the table to a file, whose folder is made.
func (r *Report) WriteFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(r.Write(file), file.Close())
}

// short is an answer on one line.
func short(text string) string {
	return errortext.Short(strings.Join(strings.Fields(text), " "), 300)
}
