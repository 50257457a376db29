package hosts

import (
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// footprint is what bootstrap data says that it puts on a host by name.
type footprint struct {
	files []string
	users []string
}

// footprintOf reads a cloud-config. What a script does, or another format, leaves no footprint here: a
// clean-up still takes away everything that a node has.
func footprintOf(userData []byte) footprint {
	config := struct {
		WriteFiles []struct {
			Path string `json:"path"`
		} `json:"write_files"`
		Users []any `json:"users"`
	}{}
	found := footprint{}
	if yaml.Unmarshal(userData, &config) != nil {
		return found
	}
	for _, file := range config.WriteFiles {
		if clean := path.Clean(file.Path); path.IsAbs(clean) && !strings.ContainsRune(clean, 0) && !slices.Contains(found.files, clean) {
			found.files = append(found.files, clean)
		}
	}
	for _, entry := range config.Users {
		name, _ := entry.(string)
		if fields, ok := entry.(map[string]any); ok {
			name, _ = fields["name"].(string)
		}
		if isUserName(name) && name != "default" && !slices.Contains(found.users, name) {
			found.users = append(found.users, name)
		}
	}
	return found
}

// isUserName reports whether a name is one that useradd accepts, and no option.
func isUserName(name string) bool {
	return name != "" && len(name) <= 32 && !strings.HasPrefix(name, "-") && !strings.ContainsAny(name, ":/,\n\x00 ")
}
