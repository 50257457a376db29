package steps

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
)

var (
	// assignment is a word of a command that gives a variable a value.
	assignment = regexp.MustCompile(`(^|\s)([A-Z][A-Z0-9_]*)=(\S+)`)
	// plain is a value that a shell takes as it is.
	plain = regexp.MustCompile(`^[\w@%+=:,./-]+$`)
)

// Values are those that a command gives to variables.
func Values(command string) map[string]string {
	values := map[string]string{}
	for _, found := range assignment.FindAllStringSubmatch(command, -1) {
		values[found[2]] = found[3]
	}
	return values
}

// WithValues is a command with other values of some of the variables that it sets, and nothing else changed. What the command
// does not set is an error.
func WithValues(command string, values map[string]string) (string, error) {
	known := Values(command)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if _, found := known[name]; !found {
			return "", fmt.Errorf("%s: the command does not set %s: %s", Path, name, command)
		}
		if !plain.MatchString(values[name]) {
			return "", fmt.Errorf("a shell does not take the value of %s as it is: %q", name, values[name])
		}
	}
	return assignment.ReplaceAllStringFunc(command, func(word string) string {
		parts := assignment.FindStringSubmatch(word)
		if value, found := values[parts[2]]; found {
			return parts[1] + parts[2] + "=" + value
		}
		return word
	}), nil
}
