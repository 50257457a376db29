package cloudinit

import (
	"errors"
	"strings"
)

// split reads a command line as systemd does (systemd.service(5), "Command Lines"; systemd.unit(5),
// "Specifiers"): it is written after the manual and shares nothing with what it checks. A specifier or
// a variable in the line is an error: nothing of ours has one.
func split(line string) ([]string, error) {
	var words []string
	word, open, quoted := strings.Builder{}, false, false
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '\\':
			if i++; i == len(line) || line[i] != '\\' && line[i] != '"' {
				return nil, errors.New("an escape that is not known here")
			}
			word.WriteByte(line[i])
			open = true
		case c == '"':
			if !quoted && open {
				return nil, errors.New("a quote within a word")
			}
			quoted, open = !quoted, true
		case c == '%' || c == '$':
			if i++; i == len(line) || line[i] != c {
				return nil, errors.New("it would be expanded")
			}
			word.WriteByte(c)
			open = true
		case c == ' ' && !quoted:
			if open {
				words = append(words, word.String())
			}
			word, open = strings.Builder{}, false
		case c == '\'' || c == ';' || c == '\n' || c == '\t':
			if !quoted || c == '\n' {
				return nil, errors.New("a character with a meaning of its own")
			}
			word.WriteByte(c)
		default:
			word.WriteByte(c)
			open = true
		}
	}
	if quoted {
		return nil, errors.New("a quote that does not end")
	}
	if open {
		words = append(words, word.String())
	}
	return words, nil
}
