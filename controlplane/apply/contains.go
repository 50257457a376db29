package apply

import "reflect"

// Contains reports whether a live value, in the form that JSON has in Go, has everything of a wanted
// one. Maps may have more keys: defaults, and fields of others. Lists must be as long as wanted: an
// element that somebody added is a difference. An absent map or list equals an empty one.
func Contains(live, wanted any) bool {
	switch wanted := wanted.(type) {
	case map[string]any:
		have, ok := live.(map[string]any)
		if !ok {
			return live == nil && len(wanted) == 0
		}
		for key, value := range wanted {
			if !Contains(have[key], value) {
				return false
			}
		}
		return true
	case []any:
		have, ok := live.([]any)
		if !ok {
			return live == nil && len(wanted) == 0
		}
		if len(have) != len(wanted) {
			return false
		}
		for i := range wanted {
			if !Contains(have[i], wanted[i]) {
				return false
			}
		}
		return true
	default:
		return reflect.DeepEqual(live, wanted)
	}
}
