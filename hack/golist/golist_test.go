package golist

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFunctionsAreFoundByTheirCode(t *testing.T) {
	code := `package a
import "testing"
func FuzzA(f *testing.F) {}
func FuzzHelper(t *testing.T) {}
func fuzzB(f *testing.F) {}
func FuzzC(f *testing.F, a int) {}
type s struct{}
func (s) FuzzD(f *testing.F) {}
func TestE(t *testing.T) {}
func FuzzF(f *testing.F) {}
func FuzzG(a, b *testing.F) {}
`
	p := Package{Dir: t.TempDir(), TestGoFiles: []string{"a_test.go"}, XTestGoFiles: []string{"b_test.go"}}
	for file, code := range map[string]string{"a_test.go": code, "b_test.go": "package a_test\nimport \"testing\"\nfunc FuzzH(f *testing.F) {}\n"} {
		if err := os.WriteFile(filepath.Join(p.Dir, file), []byte(code), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		prefix, argument string
		want             []string
	}{{"Fuzz", "F", []string{"FuzzA", "FuzzF", "FuzzH"}}, {"Test", "T", []string{"TestE"}}} {
		if names, err := p.Functions(test.prefix, test.argument); err != nil || !slices.Equal(names, test.want) {
			t.Errorf("found %q, %v, want %q", names, err, test.want)
		}
	}
}

func TestBuildTagsChooseFiles(t *testing.T) {
	const here = "../../test/envtest" // its tests have the tag envtest
	for tags, want := range map[string]bool{"": false, "envtest": true, "envtest,root": true} {
		packages, err := Packages(t.Context(), tags, here)
		if err != nil || len(packages) != 1 {
			t.Fatalf("%v, %v", packages, err)
		}
		if got := len(packages[0].TestFiles()) > 0; got != want {
			t.Errorf("with the tags %q it has tests: %t", tags, got)
		}
	}
}

func TestAPackageThatIsNotThereIsNamed(t *testing.T) {
	if _, err := Packages(t.Context(), "", "./nowhere"); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Error(err)
	}
}
