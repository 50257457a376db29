// Package flags compares the flags of managers with the arguments that releases start them with.
package flags

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

var argument = regexp.MustCompile(`(?m)^ +- --([a-z0-9-]+)=\$\{KOK_[A-Z_]+:=([^}]*)\}$`)

// OfManager checks that a manager takes the arguments in a file, and that an installation can set each of its flags for
// concurrency, whose default is the flag's own.
func OfManager(t *testing.T, file string, known *pflag.FlagSet) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	defaults := map[string]string{}
	for _, found := range argument.FindAllStringSubmatch(string(content), -1) {
		defaults[found[1]] = found[2]
		if known.Lookup(found[1]) == nil {
			t.Errorf("%s is no flag", found[1])
		} else if err := known.Set(found[1], found[2]); err != nil {
			t.Error(err)
		}
	}
	concurrent := 0
	known.VisitAll(func(flag *pflag.Flag) {
		if !strings.HasSuffix(flag.Name, "concurrency") {
			return
		}
		concurrent++
		if got, ok := defaults[flag.Name]; !ok || got != flag.DefValue {
			t.Errorf("--%s has the variable %t with the default %q, not %s", flag.Name, ok, got, flag.DefValue)
		}
	})
	if concurrent == 0 {
		t.Error("it has no flag for concurrency")
	}
}
