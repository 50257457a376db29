// Package units starts and stops units of systemd, over D-Bus.
package units

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/dbus"
)

// State is what systemd knows of a unit.
type State struct {
	// Known says that the unit has a file.
	Known bool
	// Enabled says that it is started at boot.
	Enabled bool
	// Active is active, failed, activating and so on; Sub is more exact.
	Active, Sub string
	// Invocation changes with each start.
	Invocation string
}

// Manager is systemd, as far as the program needs it.
type Manager interface {
	// Reload reads the files of units.
	Reload(ctx context.Context) error
	Enable(ctx context.Context, unit string) error
	Disable(ctx context.Context, unit string) error
	// Start, Restart and Stop return when it is done.
	Start(ctx context.Context, unit string) error
	Restart(ctx context.Context, unit string) error
	Stop(ctx context.Context, unit string) error
	State(ctx context.Context, unit string) (State, error)
	// Journal is the end of a unit's log, for people.
	Journal(ctx context.Context, unit string) string
}

// Systemd is the systemd of this machine. It connects when it is needed.
type Systemd struct {
	connection *dbus.Conn
}

func (s *Systemd) connect(ctx context.Context) (*dbus.Conn, error) {
	if s.connection != nil && s.connection.Connected() {
		return s.connection, nil
	}
	// The connection ends with its context, and lives longer than this call.
	connection, err := dbus.NewWithContext(context.WithoutCancel(ctx))
	if err != nil {
		return nil, fmt.Errorf("connect to systemd: %w", err)
	}
	s.connection = connection
	return connection, nil
}

// Close ends the connection.
func (s *Systemd) Close() {
	if s.connection != nil {
		s.connection.Close()
	}
}

// startedAtBoot are the states of unit files that need not be enabled. Other units start static ones.
var startedAtBoot = []string{"enabled", "static", "indirect"}

// Reload implements Manager.
func (s *Systemd) Reload(ctx context.Context) error {
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	if err := c.ReloadContext(ctx); err != nil {
		return fmt.Errorf("have systemd read the files of units: %w", err)
	}
	return nil
}

// Enable implements Manager.
func (s *Systemd) Enable(ctx context.Context, unit string) error {
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	if _, _, err := c.EnableUnitFilesContext(ctx, []string{unit}, false, true); err != nil {
		return fmt.Errorf("enable %s: %w", unit, err)
	}
	return s.Reload(ctx)
}

// Disable implements Manager.
func (s *Systemd) Disable(ctx context.Context, unit string) error {
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	if _, err := c.DisableUnitFilesContext(ctx, []string{unit}, false); err != nil {
		return fmt.Errorf("disable %s: %w", unit, err)
	}
	return s.Reload(ctx)
}

// replace is the mode of a job that replaces other jobs of the unit.
const replace = "replace"

type job func(ctx context.Context, name, mode string, done chan<- string) (int, error)

// run waits until a job is done.
func (s *Systemd) run(ctx context.Context, verb, unit string, start func(*dbus.Conn) job) error {
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	done := make(chan string, 1)
	if _, err := start(c)(ctx, unit, replace, done); err != nil {
		return fmt.Errorf("%s %s: %w", verb, unit, err)
	}
	select {
	case result := <-done:
		if result != "done" && result != "skipped" {
			return fmt.Errorf("%s %s: systemd says %s", verb, unit, result)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s %s: %w", verb, unit, context.Cause(ctx))
	}
}

// Start implements Manager.
func (s *Systemd) Start(ctx context.Context, unit string) error {
	return s.run(ctx, "start", unit, func(c *dbus.Conn) job { return c.StartUnitContext })
}

// Restart implements Manager. It also restarts a unit that failed too often.
func (s *Systemd) Restart(ctx context.Context, unit string) error {
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	// A unit that is not loaded cannot be reset, and needs no reset.
	_ = c.ResetFailedUnitContext(ctx, unit)
	return s.run(ctx, "restart", unit, func(c *dbus.Conn) job { return c.RestartUnitContext })
}

// Stop implements Manager.
func (s *Systemd) Stop(ctx context.Context, unit string) error {
	return s.run(ctx, "stop", unit, func(c *dbus.Conn) job { return c.StopUnitContext })
}

// State implements Manager.
func (s *Systemd) State(ctx context.Context, unit string) (State, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return State{}, err
	}
	properties, err := c.GetUnitPropertiesContext(ctx, unit)
	if err != nil {
		return State{}, fmt.Errorf("read the state of %s from systemd: %w", unit, err)
	}
	text := func(name string) string {
		value, _ := properties[name].(string)
		return value
	}
	invocation, _ := properties["InvocationID"].([]byte)
	return State{
		Known:   text("LoadState") != "not-found",
		Enabled: slices.Contains(startedAtBoot, text("UnitFileState")),
		Active:  text("ActiveState"), Sub: text("SubState"), Invocation: fmt.Sprintf("%x", invocation),
	}, nil
}

const (
	journalLines = "10"
	maxJournal   = 1500
)

// Journal implements Manager.
func (s *Systemd) Journal(ctx context.Context, unit string) string {
	output, err := exec.CommandContext(ctx, "journalctl", "--unit="+unit, "--lines="+journalLines, "--output=json", "--output-fields=MESSAGE", "--no-pager", "--quiet").Output()
	if err != nil {
		return "the journal could not be read: " + err.Error()
	}
	return lastWords(output)
}

// lastWords are the messages of a journal in JSON. Those that are no text are arrays of bytes there, and are left out.
func lastWords(journal []byte) string {
	var words []string
	for line := range bytes.Lines(journal) {
		var entry struct {
			Message any `json:"MESSAGE"`
		}
		if err := json.Unmarshal(line, &entry); err != nil {
			continue
		}
		if message, ok := entry.Message.(string); ok {
			words = append(words, strings.TrimSpace(message))
		}
	}
	text := strings.Join(words, " | ")
	if len(text) > maxJournal {
		text = "..." + strings.ToValidUTF8(text[len(text)-maxJournal:], "")
	}
	return text
}
