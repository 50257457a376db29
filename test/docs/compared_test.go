package docs

import (
	"os"
	"regexp"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/markdown"
)

var (
	reference  = regexp.MustCompile(`\]\[([\w-]+)\]`)
	definition = regexp.MustCompile(`(?m)^\[([\w-]+)\]: (\S+)$`)
	atACommit  = regexp.MustCompile(`^https://github\.com/[\w-]+/[\w-]+/blob/[0-9a-f]{40}/[\w./-]+(#[\w-]+)?$`)
)

// A source that moves on says something else one day.
func TestWhatIsSaidOfOtherProjectsHasASource(t *testing.T) {
	text, err := os.ReadFile("../../docs/compared.md")
	if err != nil {
		t.Fatal(err)
	}
	sources, used := map[string]string{}, map[string]bool{}
	for _, found := range definition.FindAllStringSubmatch(string(text), -1) {
		sources[found[1]] = found[2]
		if !atACommit.MatchString(found[2]) {
			t.Errorf("the source %s is no file of a repository at a commit: %s", found[1], found[2])
		}
	}
	projects := []string{"Gardener", "HyperShift", "Kamaji"}
	rows := markdown.Parse(string(text)).Rows(append(projects, "", "KOK")...)
	if len(rows) == 0 {
		t.Fatal("docs/compared.md has no table")
	}
	for _, row := range rows {
		for _, project := range projects {
			found := reference.FindAllStringSubmatch(row[project], -1)
			if len(found) == 0 && row[project] != "not found" {
				t.Errorf("%s, %s: want a source, or not found", row[""], project)
			}
			for _, reference := range found {
				used[reference[1]] = true
				if sources[reference[1]] == "" {
					t.Errorf("%s, %s: there is no source %s", row[""], project, reference[1])
				}
			}
		}
	}
	for name := range sources {
		if !used[name] {
			t.Errorf("no cell has the source %s", name)
		}
	}
}
