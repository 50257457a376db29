package hosts

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// UnitState is what systemd says of a unit (org.freedesktop.systemd1(5), "Unit Objects").
type UnitState struct {
	// Loaded is true when systemd knows the unit.
	Loaded bool
	// Active is ActiveState: active, activating, inactive, failed, ...
	Active string
	// Sub is SubState, such as auto-restart for a service that ended and is about to be started again.
	Sub string
	// Enabled is true when the unit starts at boot.
	Enabled bool
	// Restarts is how often systemd restarted it by itself since the last start by a command.
	Restarts int
	// Started is when its main process started, measured from the boot.
	Started time.Duration
}

// Runs reports whether anything of the unit may still run.
func (u UnitState) Runs() bool {
	return u.Active == "active" || u.Active == "activating" || u.Active == "reloading" || u.Active == "deactivating"
}

// unitProperties are what parseUnits reads. NRestarts is there since systemd 235.
const unitProperties = "LoadState,ActiveState,SubState,UnitFileState,NRestarts,ExecMainStartTimestampMonotonic"

// Units reads the state of units from systemd, in their order.
func (h *Host) Units(ctx context.Context, names ...string) ([]UnitState, error) {
	args := append([]string{"systemctl", "show", "--property=" + unitProperties, "--"}, names...)
	output, err := h.Run(ctx, args...)
	if err != nil {
		return nil, err
	}
	states := parseUnits(string(output))
	if len(states) != len(names) {
		return nil, fmt.Errorf("systemctl show answered for %d units of %d", len(states), len(names))
	}
	return states, nil
}

// AwaitStart waits, no longer than limit, until a unit that is starting has started; for a unit of type oneshot, until its
// commands have ended. One command waits on the host, where looking again and again would take a command for each look. How
// it ended is no error: read the unit. Do not call it for a unit that is not starting, because it would start it.
func (h *Host) AwaitStart(ctx context.Context, unit string, limit time.Duration) error {
	// systemctl joins the start that is under way, and returns with it (systemctl(1), --no-block). sshd passes no signal on
	// to root's commands, and so the limit is kept on the host.
	_, err := h.Try(ctx, "timeout", strconv.Itoa(int(limit.Seconds())), "systemctl", "start", unit)
	return err
}

// parseUnits reads what systemctl show prints: a block of properties for each unit, with an empty line
// between two.
func parseUnits(output string) []UnitState {
	var states []UnitState
	for block := range strings.SplitSeq(strings.TrimSpace(output), "\n\n") {
		state := UnitState{}
		for line := range strings.Lines(block) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			switch name {
			case "LoadState":
				state.Loaded = value == "loaded"
			case "ActiveState":
				state.Active = value
			case "SubState":
				state.Sub = value
			case "NRestarts":
				state.Restarts, _ = strconv.Atoi(value)
			case "ExecMainStartTimestampMonotonic":
				microseconds, _ := strconv.ParseInt(value, 10, 64)
				state.Started = time.Duration(microseconds) * time.Microsecond
			case "UnitFileState":
				state.Enabled = value == "enabled" || value == "enabled-runtime"
			}
		}
		states = append(states, state)
	}
	return states
}
