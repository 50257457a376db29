package figures

import (
	"encoding/json"
	"fmt"

	"github.com/onsi/ginkgo/v2/types"
)

// Entry is the name of ginkgo's report entries whose value is a Figure.
const Entry = "figure"

// OfReport gives the figures of a report, each with its spec as the scenario. It is the same whether the report was read from
// JSON or is that of this process.
func OfReport(report types.Report) ([]Figure, error) {
	var all []Figure
	for _, spec := range report.SpecReports {
		for _, entry := range spec.ReportEntries {
			if entry.Name != Entry {
				continue
			}
			figure, err := ofEntry(entry)
			if err != nil {
				return nil, fmt.Errorf("a figure of %q: %w", spec.FullText(), err)
			}
			figure.Scenario = spec.FullText()
			all = append(all, figure)
		}
	}
	return all, nil
}

func ofEntry(entry types.ReportEntry) (figure Figure, err error) {
	if figure, ours := entry.GetRawValue().(Figure); ours {
		return figure, nil
	}
	err = json.Unmarshal([]byte(entry.Value.AsJSON), &figure)
	return figure, err
}
