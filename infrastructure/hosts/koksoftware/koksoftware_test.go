package koksoftware

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/hosttest"
)

func TestWhatAHostSaysOfItsSoftwareIsBounded(t *testing.T) {
	long := strings.Repeat("é", 10_000)
	text, err := json.Marshal(software.Result{Reason: software.Reason(long), Component: long, Message: long})
	if err != nil {
		t.Fatal(err)
	}
	got := problemIn(text)
	for _, said := range []string{string(got.Reason), got.Component, got.Message} {
		if len(said) > hosts.MaxLine || !utf8.ValidString(said) || !strings.HasSuffix(said, "é…") {
			t.Errorf("%d bytes: %q", len(said), said)
		}
	}
}

// The Record keeps what was told, and after a move it is told from there.
func TestAvoidedSourcesAreToldTheSameAgain(t *testing.T) {
	for name, sources := range map[string][]string{
		"some":           {"https://a.example: late", "https://b.example: 404"},
		"more than told": {"1", "2", "3", "4", "5", "6", "7"},
		"a long one":     {"a" + strings.Repeat("é", 2000)},
	} {
		t.Run(name, func(t *testing.T) {
			told := Tellable(sources)
			if again := Tellable(told); !slices.Equal(again, told) {
				t.Errorf("%q, and again %q", told, again)
			}
		})
	}
}

// FuzzResults: what kok-software left on a host is told in bounded lines.
func FuzzResults(f *testing.F) {
	for _, seed := range []string{
		`{"reason":"SoftwareNotAvailable","component":"containerd","message":"no server gave it","avoided":["https://a.example: 404","b","c","d","e","f","g"]}`,
		`{"reason":"","message":"a"}`, `{"reason":"a\nb","message":"\u0000\u001b[31m"}`, `{}`, ``, `null`, `[]`, `{"avoided":{}}`, fmt.Sprintf(`{"reason":"a","message":%q}`, strings.Repeat("é", 2000)),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		if problem := problemIn(content); problem != nil {
			for text, length := range map[string]int{string(problem.Reason): maxComponent, problem.Component: maxComponent, problem.Message: hosts.MaxLine} {
				if !hosttest.TellableTo(text, length) || strings.Contains(text, "\n") {
					t.Errorf("it is told as %d bytes, %.200q", len(text), text)
				}
			}
		}
		told := avoidedIn(content)
		if len(told) > maxAvoided+1 || slices.ContainsFunc(told, func(text string) bool { return !hosttest.TellableTo(text, hosts.MaxLine) }) {
			t.Errorf("it avoided %q", told)
		}
	})
}
