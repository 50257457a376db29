package units

import (
	"strings"
	"testing"
)

func TestLastWords(t *testing.T) {
	long := `{"MESSAGE":"` + strings.Repeat("x", 2*maxJournal) + `end"}`
	for name, c := range map[string]struct{ journal, want string }{
		"are the messages in their order": {"{\"MESSAGE\":\"first\"}\n{\"MESSAGE\":\"second \"}\n", "first | second"},
		"leave out what is no text":       {"{\"MESSAGE\":[1,2]}\n{\"MESSAGE\":null}\nno JSON\n{\"MESSAGE\":\"x\"}", "x"},
		"of nothing are none":             {"", ""},
		"are bounded":                     {long, "..." + strings.Repeat("x", maxJournal-3) + "end"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := lastWords([]byte(c.journal)); got != c.want {
				t.Errorf("%q", got)
			}
		})
	}
}
