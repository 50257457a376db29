package hosts

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// unitState is what systemd says of a unit (org.freedesktop.systemd1(5), "Unit Objects").
type unitState struct {
	loaded bool
	// active is ActiveState: active, activating, inactive, failed, ...
	active string
	// sub is SubState, such as auto-restart for a service that ended and is about to be started again.
	sub string
	// enabled is true when the unit starts at boot.
	enabled bool
	// restarts is how often systemd restarted it by itself since the last start by a command.
	restarts int
	// started is when its main process started, measured from the boot.
	started time.Duration
}

// runs reports whether anything of the unit may still run.
func (u unitState) runs() bool {
	return u.active == "active" || u.active == "activating" || u.active == "reloading" || u.active == "deactivating"
}

// unitProperties are what parseUnits reads. NRestarts is there since systemd 235.
const unitProperties = "LoadState,ActiveState,SubState,UnitFileState,NRestarts,ExecMainStartTimestampMonotonic"

// units reads the state of units from systemd, in their order.
func (h *Host) units(ctx context.Context, names ...string) ([]unitState, error) {
	args := append([]string{"systemctl", "show", "--property=" + unitProperties, "--"}, names...)
	output, err := h.run(ctx, args...)
	if err != nil {
		return nil, err
	}
	states := parseUnits(string(output))
	if len(states) != len(names) {
		return nil, fmt.Errorf("systemctl show answered for %d units of %d", len(states), len(names))
	}
	return states, nil
}

// parseUnits reads what systemctl show prints: a block of properties for each unit, with an empty line
// between two.
func parseUnits(output string) []unitState {
	var states []unitState
	for block := range strings.SplitSeq(strings.TrimSpace(output), "\n\n") {
		state := unitState{}
		for line := range strings.Lines(block) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			switch name {
			case "LoadState":
				state.loaded = value == "loaded"
			case "ActiveState":
				state.active = value
			case "SubState":
				state.sub = value
			case "NRestarts":
				state.restarts, _ = strconv.Atoi(value)
			case "ExecMainStartTimestampMonotonic":
				microseconds, _ := strconv.ParseInt(value, 10, 64)
				state.started = time.Duration(microseconds) * time.Microsecond
			case "UnitFileState":
				state.enabled = value == "enabled" || value == "enabled-runtime"
			}
		}
		states = append(states, state)
	}
	return states
}
