package etcdfaults

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/onsi/ginkgo/v2/types"
)

// Entry is the name of ginkgo's report entries whose value is a Row.
const Entry = "fault of etcd"

// OfReport gives the rows of a report: one for each spec with a label that ran, also when it failed before there was one. It is
// the same whether the report was read from JSON or is that of this process.
func OfReport(report types.Report, label string) ([]Row, error) {
	var rows []Row
	for _, spec := range report.SpecReports {
		ran := spec.State.Is(types.SpecStatePassed) || spec.Failed()
		if !ran || !slices.Contains(spec.Labels(), label) {
			continue
		}
		row := Row{Fault: spec.LeafNodeText}
		for _, entry := range spec.ReportEntries {
			if entry.Name != Entry {
				continue
			}
			var err error
			if row, err = ofEntry(entry); err != nil {
				return nil, fmt.Errorf("the row of %q: %w", spec.FullText(), err)
			}
		}
		row.Passed = !spec.Failed()
		if row.Note == "" {
			row.Note = spec.FailureMessage()
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func ofEntry(entry types.ReportEntry) (row Row, err error) {
	if row, ours := entry.GetRawValue().(Row); ours {
		return row, nil
	}
	err = json.Unmarshal([]byte(entry.Value.AsJSON), &row)
	return row, err
}
