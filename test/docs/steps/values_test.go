package steps

import (
	"maps"
	"strings"
	"testing"
)

func TestValuesOfACommand(t *testing.T) {
	const command = "export A_1=one B=$HOME/x \\\n  C=https://example.com/a=b"
	if got := Values(command); !maps.Equal(got, map[string]string{"A_1": "one", "B": "$HOME/x", "C": "https://example.com/a=b"}) {
		t.Errorf("they are %v", got)
	}
	for name, test := range map[string]struct {
		values        map[string]string
		want, problem string
	}{
		"stay when there are no others":        {nil, command, ""},
		"are replaced, and all else stays":     {map[string]string{"B": "/root/k", "C": "SHA256:a+b/c"}, "export A_1=one B=/root/k \\\n  C=SHA256:a+b/c", ""},
		"are those of whole names":             {map[string]string{"A": "x"}, "", "does not set A"},
		"have nothing that a shell looks into": {map[string]string{"B": "$(ls)"}, "", "value of B"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := WithValues(command, test.values)
			if got != test.want {
				t.Errorf("it is %q, want %q", got, test.want)
			}
			if test.problem == "" && err != nil || test.problem != "" && (err == nil || !strings.Contains(err.Error(), test.problem)) {
				t.Errorf("%v, want %q", err, test.problem)
			}
		})
	}
}
