package cloudinit

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode"
)

var (
	octal   = regexp.MustCompile(`^[0-7]{4}$`)
	owner   = regexp.MustCompile(`^[a-z_][a-z0-9_-]*:[a-z_][a-z0-9_-]*$`)
	account = regexp.MustCompile(`^[a-z_][a-z0-9_-]*$`)
)

// checkLine refuses text that is not printable, or has several lines: programs that read line by line would see several
// values.
func checkLine(value string) error {
	for _, r := range value {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return fmt.Errorf("must be one line of printable text, without %q", r)
		}
	}
	return nil
}

// checkWord refuses a line with blanks or quotes.
func checkWord(value string) error {
	if value == "" {
		return fmt.Errorf("must not be empty")
	}
	if i := strings.IndexFunc(value, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"'`\\", r) }); i >= 0 {
		return fmt.Errorf("must have no blanks, quotes and characters beyond ASCII")
	}
	return nil
}

// CheckPath refuses a path that is not absolute, not in its shortest form, or that a program could take for something else.
func CheckPath(value string) error {
	if err := checkWord(value); err != nil {
		return err
	}
	if !path.IsAbs(value) || path.Clean(value) != value || value == "/" {
		return fmt.Errorf("must be an absolute path of a file, without . and .. and double slashes")
	}
	return nil
}

// invalid is an error about one field.
func invalid(field, value string, err error) error {
	return fmt.Errorf("spec.%s: %q: %w", field, value, err)
}
