package docs

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/markdown"
)

var (
	testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	finding      = regexp.MustCompile(`^TestFinding\d+`)
)

// goTests are the names of all tests of the project.
func goTests(t *testing.T) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir("../..", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "bin", "out", "testdata"}, entry.Name()) {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(file, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(file)
		for _, found := range testFunction.FindAllSubmatch(text, -1) {
			names = append(names, string(found[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// isThere reports whether there is what a document names as the test of something: tests by their name, or by how it begins;
// a package of tests; specs by their label; a target of make; a break of test/breaks.
func isThere(t *testing.T, name string, tests []string) bool {
	t.Helper()
	contains := func(file, text string) bool {
		content, err := os.ReadFile(filepath.Join("../..", file))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(content), text)
	}
	if start, is := strings.CutSuffix(name, "*"); is && strings.HasPrefix(name, "Test") {
		return slices.ContainsFunc(tests, func(test string) bool {
			rest, begins := strings.CutPrefix(test, start)
			// TestFinding10... is not TestFinding1*.
			return begins && rest != "" && !unicode.IsDigit(rune(rest[0]))
		})
	}
	if strings.HasPrefix(name, "Test") {
		return slices.Contains(tests, name)
	}
	if label, is := strings.CutPrefix(name, "E2E_LABELS="); is {
		return hasSpecs(t, label)
	}
	if target, is := strings.CutPrefix(name, "make "); is {
		return contains("Makefile", "\n.PHONY: "+target+"\n")
	}
	pattern := "test/breaks/patches/" + name + ".patch"
	if strings.HasPrefix(name, "./") {
		pattern = name + "/*_test.go"
	}
	files, err := filepath.Glob(filepath.Join("../..", pattern))
	return err == nil && len(files) > 0
}

// hasSpecs reports whether specs of test/e2e have a label. suite_test.go has a constant for each label, and specs name the constant.
func hasSpecs(t *testing.T, label string) bool {
	t.Helper()
	suite, err := os.ReadFile("../e2e/suite_test.go")
	if err != nil {
		t.Fatal(err)
	}
	constant := regexp.MustCompile(`(?m)^\t(\w+) *= "` + label + `"$`).FindSubmatch(suite)
	if constant == nil {
		return false
	}
	files, err := filepath.Glob("../e2e/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	labelled := regexp.MustCompile(`\bLabel\([^)]*\b` + string(constant[1]) + `\b`)
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return labelled.Match(text)
	})
}

func TestWhatStopsAnAttackerIsTested(t *testing.T) {
	rows := pages(t)["../../docs/security.md"].Rows("attacker", "wants", "what stops it", "shown by", "left open")
	if len(rows) == 0 {
		t.Fatal("docs/security.md has no table of attackers")
	}
	tests, named := goTests(t), map[string]bool{}
	for _, row := range rows {
		names := markdown.Code(row["shown by"])
		if len(names) == 0 {
			t.Errorf("nothing shows what stops %s", row["attacker"])
		}
		for _, name := range names {
			if !isThere(t, name, tests) {
				t.Errorf("%s: there is no test, package, label, target or break %s", row["attacker"], name)
			}
			named[strings.TrimSuffix(name, "*")] = true
		}
	}
	for _, test := range tests {
		number := finding.FindString(test)
		of := func(name string) bool { return finding.FindString(name) == number }
		if number != "" && !slices.ContainsFunc(slices.Collect(maps.Keys(named)), of) {
			t.Errorf("no attacker's row names a test of the finding that %s is of", test)
		}
	}
}

// The page says what Cluster API's own managers do. A person read that in the code of one release, and reads it again in that of the next.
func TestWhatClusterAPIsManagersDoIsSaidOfTheReleaseThatIsUsed(t *testing.T) {
	module, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	used := regexp.MustCompile(`(?m)^\tsigs\.k8s\.io/cluster-api (v\S+)`).FindSubmatch(module)
	if used == nil {
		t.Fatal("go.mod requires no Cluster API")
	}
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "What "+string(used[1])+" does, in its core manager") {
		t.Errorf("docs/security.md does not say what the managers of Cluster API %s do with a kubeconfig", used[1])
	}
}
