package hosts

import (
	"context"
	"fmt"
	"strings"
)

// unitState is what systemd says of a unit (org.freedesktop.systemd1(5), "Unit Objects").
type unitState struct {
	loaded bool
	// active is ActiveState: active, activating, inactive, failed, ...
	active string
	// enabled is true when the unit starts at boot.
	enabled bool
}

// runs reports whether anything of the unit may still run.
func (u unitState) runs() bool {
	return u.active == "active" || u.active == "activating" || u.active == "reloading" || u.active == "deactivating"
}

// units asks systemd about units, in their order.
func (h *Host) units(ctx context.Context, names ...string) ([]unitState, error) {
	args := append([]string{"systemctl", "show", "--property=LoadState,ActiveState,UnitFileState", "--"}, names...)
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
			case "UnitFileState":
				state.enabled = value == "enabled" || value == "enabled-runtime"
			}
		}
		states = append(states, state)
	}
	return states
}
