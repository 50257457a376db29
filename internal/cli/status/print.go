package status

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/terminal"
)

const (
	// maxRows is how many machines or hosts are printed. Other formats have all.
	maxRows = 8
	// maxLines is how much of a message is shown.
	maxLines = 4
)

// screen writes a report for people. It keeps its first error.
type screen struct {
	out io.Writer
	now time.Time
	err error
}

func (s *screen) line(format string, args ...any) {
	if s.err == nil {
		_, s.err = fmt.Fprintln(s.out, terminal.Plain(fmt.Sprintf(format, args...)))
	}
}

// rows writes a table, with a first line unless head is empty. It writes nothing for an empty table.
func (s *screen) rows(head string, rows [][]string) {
	if s.err != nil || len(rows) == 0 {
		return
	}
	table := tabwriter.NewWriter(s.out, 0, 0, 3, ' ', 0)
	if head != "" {
		_, _ = fmt.Fprintln(table, "  "+head)
	}
	for _, row := range rows {
		_, _ = fmt.Fprintln(table, "  "+strings.Join(row, "\t"))
	}
	s.err = table.Flush()
}

// conditions are those that are not as they should be, each with its message below it.
func (s *screen) conditions(all []Condition) {
	for _, c := range all {
		s.line("  ! %s is %s%s: %s", c.Type, c.Status, s.age(c.Since), c.Reason)
		s.message(c.Message)
	}
}

func (s *screen) message(text string) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		if i == maxLines {
			s.line("      … and %d more lines; --output yaml has them", len(lines)-maxLines)
			return
		}
		if line != "" {
			s.line("      %s", line)
		}
	}
}

func (s *screen) more(all int) {
	if all > maxRows {
		s.line("  … and %d more; --output yaml has them", all-maxRows)
	}
}

// age is how long something has been so; nothing when that is not known.
func (s *screen) age(since time.Time) string {
	if since.IsZero() {
		return ""
	}
	return " for " + duration.HumanDuration(s.now.Sub(since))
}

// Print writes a report for people.
func (r *Report) Print(out io.Writer, now time.Time) error {
	s := &screen{out: out, now: now}
	s.line("Cluster %s/%s: %s", r.Cluster.Namespace, r.Cluster.Name, r.inShort())
	if r.Cluster.Endpoint != "" {
		s.line("  endpoint %s", r.Cluster.Endpoint)
	}
	s.conditions(r.Cluster.Conditions)
	s.controlPlane(r.ControlPlane)
	s.workers(r)
	s.hosts(&r.Hosts)
	for _, unread := range r.Unread {
		s.line("! %s", unread)
	}
	return s.err
}

func (r *Report) inShort() string {
	short := "not available"
	switch {
	case r.Well:
		short = "available, all is well"
	case r.Available:
		short = "available, and not all is well"
	}
	if r.Cluster.Phase != "" {
		short += " (" + r.Cluster.Phase + ")"
	}
	return short
}

func (s *screen) controlPlane(c *ControlPlane) {
	if c == nil {
		s.line("Control plane: the Cluster names no KOKControlPlane that can be read")
		return
	}
	version, where := c.Version, ""
	if len(c.Running) > 1 || len(c.Running) == 1 && c.Running[0] != c.Version {
		version += " (running " + strings.Join(c.Running, ", ") + ")"
	}
	if c.HostCluster != "" {
		where = ", in the host cluster of Secret " + c.HostCluster
	}
	state := "not available"
	if c.Available {
		state = "available"
	}
	s.line("Control plane KOKControlPlane %s %s: %s%s", c.Name, version, state, where)
	var rows [][]string
	for _, component := range c.Components {
		var members []string
		for _, m := range component.Members {
			members = append(members, m.Name+" "+m.State)
		}
		row := []string{component.Name, fmt.Sprintf("%d/%d", component.Ready, component.Desired)}
		if len(members) > 0 {
			row = append(row, strings.Join(members, ", "))
		}
		rows = append(rows, row)
	}
	s.rows("COMPONENT\tREADY\tMEMBERS OF ETCD", rows)
	s.conditions(c.Conditions)
}

func (s *screen) workers(r *Report) {
	s.line("Workers: %d of %d Machines are up", r.Machines.Up, r.Machines.Total)
	var rows [][]string
	for _, d := range r.MachineDeployments {
		rows = append(rows, []string{d.Name, d.Version, fmt.Sprint(d.Desired), fmt.Sprint(d.Ready), fmt.Sprint(d.Available), fmt.Sprint(d.UpToDate)})
	}
	s.rows("MACHINEDEPLOYMENT\tVERSION\tDESIRED\tREADY\tAVAILABLE\tUP-TO-DATE", rows)
	for _, d := range r.MachineDeployments {
		for _, c := range d.Conditions {
			s.line("  ! %s: %s is %s%s: %s", d.Name, c.Type, c.Status, s.age(c.Since), c.Reason)
			s.message(c.Message)
		}
	}
	for i, m := range r.Machines.NotUp {
		if i == maxRows {
			break
		}
		about := m.Phase
		if m.Host != "" {
			about = strings.TrimPrefix(about+", host "+m.Host, ", ")
		}
		if about != "" {
			about = " (" + about + ")"
		}
		s.line("  ! %s%s waits%s for %s: %s", m.Name, about, s.age(m.Condition.Since), m.WaitsFor, m.Condition.Reason)
		s.message(m.Condition.Message)
	}
	s.more(len(r.Machines.NotUp))
}

func (s *screen) hosts(h *Hosts) {
	if h.Free+h.Claimed+len(h.Bad) == 0 {
		return
	}
	s.line("Hosts: %d carry machines of this cluster, %d are free, %d cannot be used", h.Claimed, h.Free, len(h.Bad))
	for i, host := range h.Bad {
		if i == maxRows {
			break
		}
		of := ""
		if host.Machine != "" {
			of = ", of " + host.Machine
		}
		s.line("  ! %s (%s%s)%s: %s", host.Name, host.Address, of, s.age(host.Since), host.Reason)
		s.message(host.Message)
		s.message(host.WayOut)
	}
	s.more(len(h.Bad))
}
