package status

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Print writes the report for people. now is the reader's time.
func (r *Report) Print(w io.Writer, now time.Time) error {
	age := func(moment time.Time) string { return duration.HumanDuration(now.Sub(moment)) }
	_, _ = fmt.Fprintf(w, "Server:       %s\n", r.Server)
	_, _ = fmt.Fprintf(w, "Up:           %s, version %s\n", age(r.Started), r.Version)
	_, _ = fmt.Fprintf(w, "Connections:  %d open, %d accepted, %d failed, %d hedged\n", r.Connections, r.Counters.Accepted, r.Counters.Failed, r.Counters.Hedged)
	for _, l := range r.Listeners {
		_, _ = fmt.Fprintf(w, "Listener:     %s\n", l.summary())
	}
	_, _ = fmt.Fprintf(w, "Discovery:    %s\n", r.Discovery.summary(age))
	if r.Service != nil {
		_, _ = fmt.Fprintf(w, "Service:      %s\n", r.Service.summary())
	}
	_, _ = fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	_, _ = fmt.Fprintln(table, "BACKEND\tSTATE\tSINCE\tCONNECTIONS\tMEMBER\tREASON\tLAST ERROR")
	for _, b := range r.Backends {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", b.Address, b.stateForPeople(), age(b.Since), b.Connections, b.member(), b.Reason, b.failure(age))
	}
	return table.Flush()
}

func (d Discovery) summary(age func(time.Time) string) string {
	switch {
	case d.Problem != "" && !d.Confirmed:
		return "seeds and the kept list are used: " + d.Problem
	case d.Problem != "":
		return fmt.Sprintf("by EndpointSlice, list of %s ago, problem: %s", age(d.Changed), d.Problem)
	case !d.Confirmed:
		return "seeds and the kept list are used"
	}
	return fmt.Sprintf("by EndpointSlice, list of %s ago, %d bytes received", age(d.Changed), d.BytesReceived)
}

func (l Listener) summary() string {
	text := fmt.Sprintf("%s, %d of %d connections open", l.Address, l.Open, l.Max)
	if l.MaxPerSource > 0 {
		text += fmt.Sprintf(", at most %d from one address", l.MaxPerSource)
	}
	if l.Refused > 0 {
		text += fmt.Sprintf(", %d refused beyond that", l.Refused)
	}
	return text
}

func (s *Service) summary() string {
	if s.Taken {
		return s.Address + " is served here"
	}
	return s.Address + " is not served here: " + cmp.Or(s.Problem, "not taken yet")
}

func (b *Backend) stateForPeople() string {
	if b.Suspect && b.State == "ready" {
		return "ready?"
	}
	return b.State
}

func (b *Backend) failure(age func(time.Time) string) string {
	if b.LastError == "" {
		return "-"
	}
	return fmt.Sprintf("%s (%s ago)", b.LastError, age(b.LastErrorTime))
}

func (b *Backend) member() string {
	switch {
	case b.Listed && b.Seed:
		return "listed, seed"
	case b.Listed:
		return "listed"
	case b.Seed:
		return "seed"
	}
	return "left"
}
