package output

import (
	"strings"
	"testing"
)

func TestFactsAreWrittenInAFormat(t *testing.T) {
	facts := []struct {
		Name string `json:"name"`
	}{{"blue"}}
	for format, want := range map[Format]string{"json": "[\n  {\n    \"name\": \"blue\"\n  }\n]\n", "yaml": "- name: blue\n"} {
		text := &strings.Builder{}
		if err := format.Write(text, facts); err != nil || text.String() != want || format.Check() != nil || !format.IsData() {
			t.Errorf("%s: it writes %q, %v", format, text, err)
		}
	}
	if people := Format(""); people.IsData() || people.Check() != nil {
		t.Error("people read data")
	}
	if err := Format("xml").Check(); err == nil || !strings.Contains(err.Error(), "--output xml is not known; want json or yaml") {
		t.Errorf("of another format it says %v", err)
	}
}

func TestATableHasADashForNothing(t *testing.T) {
	text := &strings.Builder{}
	err := Table(text, []string{"NAME", "REASON"}, [][]string{{"a", ""}, {"longer\x1b[31m", "b"}})
	lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	if err != nil || len(lines) != 3 || strings.Fields(lines[1])[1] != "-" || strings.Contains(text.String(), "\x1b") {
		t.Errorf("it writes %q, %v", text, err)
	}
}
