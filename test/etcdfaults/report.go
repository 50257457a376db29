package etcdfaults

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/onsi/ginkgo/v2/types"
)

// Entry is the name of ginkgo's report entries whose value is a Row.
const Entry = "fault of etcd"

// OfReport gives the rows of a report: those of each spec with a label that ran, and one of a spec that failed before it had any. A
// spec that failed later failed in its last row. It is the same whether the report was read from JSON or is that of this process.
func OfReport(report types.Report, label string) ([]Row, error) {
	var rows []Row
	for _, spec := range report.SpecReports {
		ran := spec.State.Is(types.SpecStatePassed) || spec.Failed()
		if !ran || !slices.Contains(spec.Labels(), label) {
			continue
		}
		var of []Row
		for _, entry := range spec.ReportEntries {
			if entry.Name != Entry {
				continue
			}
			row, err := ofEntry(entry)
			if err != nil {
				return nil, fmt.Errorf("the row of %q: %w", spec.FullText(), err)
			}
			row.Passed = true
			of = append(of, row)
		}
		if len(of) == 0 {
			of = []Row{{Fault: spec.LeafNodeText, Passed: true}}
		}
		last := &of[len(of)-1]
		last.Passed = !spec.Failed()
		if last.Note == "" {
			last.Note = spec.FailureMessage()
		}
		rows = append(rows, of...)
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
