// Package output writes what a command found: as data for programs, or as a table for people.
package output

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/terminal"
)

// Flag is the name of the flag.
const Flag = "output"

// Format is the value of the flag: empty is for people.
type Format string

const (
	jsonFormat Format = "json"
	yamlFormat Format = "yaml"
)

// AddTo adds the flag to a command.
func (f *Format) AddTo(command *cobra.Command) {
	command.Flags().StringVarP((*string)(f), Flag, "o", "", "json or yaml for the facts as data; empty for people.")
	completions := cobra.FixedCompletions([]cobra.Completion{string(jsonFormat), string(yamlFormat)}, cobra.ShellCompDirectiveNoFileComp)
	if err := command.RegisterFlagCompletionFunc(Flag, completions); err != nil {
		panic(err) // The flag was added above.
	}
}

// Check refuses a format that nobody knows. A command calls it before it asks a cluster.
func (f Format) Check() error {
	switch f {
	case "", jsonFormat, yamlFormat:
		return nil
	}
	return fmt.Errorf("--%s %s is not known; want json or yaml, or leave it out", Flag, f)
}

// IsData reports whether programs read the facts.
func (f Format) IsData() bool { return f != "" }

// Write writes facts as data.
func (f Format) Write(out io.Writer, facts any) error {
	if f == jsonFormat {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(facts)
	}
	data, err := yaml.Marshal(facts)
	if err != nil {
		return err
	}
	_, err = out.Write(data)
	return err
}

// Table writes rows below a header. It writes a dash for an empty cell, and makes the texts of others fit for a terminal.
func Table(out io.Writer, header []string, rows [][]string) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(table, strings.Join(header, "\t"))
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			if cells[i] = terminal.Plain(cell); cell == "" {
				cells[i] = "-"
			}
		}
		_, _ = fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush() // Flush returns the errors of earlier writes, too.
}
