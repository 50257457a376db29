package etcdfaults

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/registers"
)

// Row is what came of one fault.
type Row struct {
	// Fault is its name. Did is what was done, on which member or host node.
	Fault string `json:"fault"`
	Did   string `json:"did"`
	// Still is the longest time in which an API server acknowledged no write.
	Still time.Duration `json:"still"`
	// Healthy is the time from the fault until all was well again without a person; zero when that did not come.
	Healthy time.Duration `json:"healthy"`
	// Replaced is how many members were replaced. Recovery is the time until all was well from the moment on when they might
	// be replaced, which is later than the fault when something is waited for on purpose.
	Replaced int           `json:"replaced"`
	Recovery time.Duration `json:"recovery"`
	// Compared is how many writes were acknowledged and compared in the end; Lost is how many of them were lost.
	Compared int `json:"compared"`
	Lost     int `json:"lost"`
	// Linearizable says whether what clients saw of registers was; empty when it was not judged.
	Linearizable registers.Outcome `json:"linearizable,omitempty"`
	// Restarted is how many pods of the tenant were restarted or replaced that the fault itself did not hit.
	Restarted int `json:"restarted"`
	// Passed is true when its spec did. Note is why it did not.
	Passed bool   `json:"passed"`
	Note   string `json:"note,omitempty"`
}

// Write writes the table.
func Write(w io.Writer, rows []Row) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, err := fmt.Fprintln(table, "FAULT\tOUTCOME\tWRITES STOOD STILL\tHEALTHY AFTER\tREPLACED\tLOST WRITES\tLINEARIZABLE\tRESTARTED PODS\tWHAT WAS DONE")
	errs := []error{err}
	for _, r := range rows {
		_, err := fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%d\t%s\n",
			r.Fault, r.outcome(), seconds(r.Still), seconds(r.Healthy), r.Replaced, r.lost(), r.linearizable(), r.Restarted, r.Did)
		errs = append(errs, err)
	}
	return errors.Join(append(errs, table.Flush())...)
}

func (r Row) outcome() string {
	switch {
	case r.Passed:
		return "passed"
	case r.Note != "":
		return "FAILED (" + short(r.Note) + ")"
	}
	return "FAILED"
}

func (r Row) lost() string {
	if r.Compared == 0 {
		return "not compared"
	}
	return fmt.Sprintf("%d of %d", r.Lost, r.Compared)
}

func (r Row) linearizable() registers.Outcome { return cmp.Or(r.Linearizable, registers.NotJudged) }

// seconds of a time; a dash for one that is not known.
func seconds(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// short is a text in one line.
func short(text string) string {
	return errortext.Short(strings.Join(strings.Fields(text), " "), 200)
}

// Figures are those of all rows together; none without rows.
func Figures(rows []Row) []figures.Figure {
	if len(rows) == 0 {
		return nil
	}
	passed, lost, compared, replaced := 0, 0, 0, 0
	judged := map[registers.Outcome]int{}
	var longest time.Duration
	for _, r := range rows {
		if r.Passed {
			passed++
		}
		lost, compared = lost+r.Lost, compared+r.Compared
		judged[r.linearizable()]++
		if r.Replaced > 0 && r.Recovery > 0 {
			replaced, longest = replaced+r.Replaced, max(longest, r.Recovery)
		}
	}
	all := []figures.Figure{
		figures.New("faults_total", len(rows), "faults"),
		figures.New("faults_passed", passed, "faults"),
		figures.New("faults_lost_writes", lost, fmt.Sprintf("writes of %d that were compared", compared)),
		figures.New("faults_not_linearizable", judged[registers.No], fmt.Sprintf("faults; %d were linearizable and %d not judged", judged[registers.Yes], judged[registers.NotJudged])),
	}
	if replaced > 0 {
		all = append(all, figures.New("recovery_seconds_member", fmt.Sprintf("%.1f", longest.Seconds()), fmt.Sprintf("s, the longest of %d members", replaced)))
	}
	return all
}
