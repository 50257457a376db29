package cloudinit

import (
	"fmt"
	"strings"
)

// commandLine is a command line of a systemd unit. The first argument is ours and is written as it is: a path,
// or a name that systemd looks for in its own path. The others become exactly one argument each:
// they are quoted, and what systemd would expand ("$", "%", "\") is escaped (systemd.service(5),
// "Command Lines").
func commandLine(program string, args ...string) (string, error) {
	line := strings.Builder{}
	line.WriteString(program)
	for _, arg := range args {
		if err := checkLine(arg); err != nil {
			return "", fmt.Errorf("argument %q: %w", arg, err)
		}
		line.WriteByte(' ')
		line.WriteString(quote(arg))
	}
	return line.String(), nil
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `$$`, `%`, `%%`)

// quote quotes an argument. Plain words stay as they are, so that people can read the unit.
func quote(arg string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_=/.:,+@", r)
	}
	if arg != "" && strings.IndexFunc(arg, func(r rune) bool { return !plain(r) }) < 0 {
		return arg
	}
	return `"` + escapes.Replace(arg) + `"`
}
