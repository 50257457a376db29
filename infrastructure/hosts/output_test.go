package hosts

import (
	"strings"
	"testing"
)

func TestAMessageSaysWhatIsWrongWithAList(t *testing.T) {
	for printed, want := range map[string]string{
		``:                         "a list in JSON should be there, and it has no {: unexpected EOF",
		`[]`:                       "a list in JSON should be there, and it has no {",
		`{"metainfo": 1}`:          "a list in JSON should be there, and it has no nftables",
		`{"nftables": 1}`:          "a list in JSON should be there, and it has no [",
		`{"nftables": }`:           "a list in JSON should be there, and it has no [: invalid character '}' looking for beginning of value",
		`{"nftables": [1`:          "unexpected EOF",
		`{"nftables": [1], "a": 1`: "",
	} {
		err := Elements(&Output{strings.NewReader(printed)}, "nftables", func(int) error { return nil })
		if got := ""; err != nil {
			got = err.Error()
			if got != want {
				t.Errorf("%s: %q, want %q", printed, got, want)
			}
		} else if want != "" {
			t.Errorf("%s is read, want %q", printed, want)
		}
	}
}
