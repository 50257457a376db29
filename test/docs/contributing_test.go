package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/history"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/revision"
)

// quoted are the words in backticks of CONTRIBUTING.md, by the heading that they are under.
func quoted(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for section := range strings.SplitSeq(string(text), "\n## ") {
		heading, rest, _ := strings.Cut(section, "\n")
		rest = regexp.MustCompile("(?s)```.*?```").ReplaceAllString(rest, "")
		for _, word := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(rest, -1) {
			found[heading] = append(found[heading], word[1])
		}
	}
	return found
}

// goWords are all words of the project's Go files.
func goWords(t *testing.T) map[string]bool {
	t.Helper()
	words, word := map[string]bool{}, regexp.MustCompile(`\w+`)
	err := filepath.WalkDir("../..", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "bin", "out", "testdata", "docs"}, entry.Name()) {
			return filepath.SkipDir // This test is in docs.
		}
		if entry.IsDir() || filepath.Ext(file) != ".go" {
			return nil
		}
		text, err := os.ReadFile(file)
		for _, found := range word.FindAll(text, -1) {
			words[string(found)] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return words
}

// invented are names that examples have for something that there is not.
var invented = []string{"BackedUp", "requestTimeout", "True", "False", "Unknown"}

func TestExamplesForContributorsNameTestsCodeAndFilesThatThereAre(t *testing.T) {
	tests, words, all := goTests(t), goWords(t), quoted(t)
	isTest, isName := regexp.MustCompile(`^Test\w+$`), regexp.MustCompile(`^[A-Za-z]\w*(\.[A-Za-z]\w*)?$`)
	isPath := regexp.MustCompile(`^(api|bootstrap|controlplane|docs|infrastructure|internal|test)/[\w./-]+$`)
	for _, example := range []string{"A new field", "A new condition", "A new component", "A new addon"} {
		named := 0
		for _, quoted := range all[example] {
			switch {
			case isTest.MatchString(quoted):
				if named++; !slices.Contains(tests, quoted) {
					t.Errorf("%q: there is no %s", example, quoted)
				}
			case isPath.MatchString(quoted):
				if _, err := os.Stat(filepath.Join("../..", quoted)); err != nil {
					t.Errorf("%q: %v", example, err)
				}
			case isName.MatchString(quoted) && !strings.HasSuffix(quoted, ".go"):
				if word := quoted[strings.LastIndex(quoted, ".")+1:]; !words[word] && !slices.Contains(invented, word) {
					t.Errorf("%q: no Go file has %s", example, word)
				}
			}
		}
		if len(all[example]) < 10 || named < 4 {
			t.Errorf("%q names %d tests, and %d other things", example, named, len(all[example])-named)
		}
	}
}

func TestCommandsAreOfManagersThatThereAre(t *testing.T) {
	files, err := filepath.Glob("../../config/*/provider/kustomization.yaml")
	if err != nil || len(files) != 3 {
		t.Fatalf("these are there: %v, %v", files, err)
	}
	known := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		of := struct{ Namespace, NamePrefix string }{}
		if err := yaml.Unmarshal(text, &of); err != nil {
			t.Fatal(err)
		}
		known[of.Namespace+" "+of.NamePrefix+"controller-manager"] = true
	}
	checked(t, `kubectl -n (\S+) (?:logs|port-forward) deploy/(\S+)`, func(c command, found []string) {
		if !known[found[1]+" "+found[2]] {
			t.Errorf("%s: there is no Deployment %s in %s: %s", c.file, found[2], found[1], c.line)
		}
	})
}

func TestCommandsNameMetricsEventsAndLabelsThatThereAre(t *testing.T) {
	metrics, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	checked(t, `grep (kok_\w+)`, func(c command, found []string) {
		name := regexp.MustCompile(`_(sum|count|bucket)$`).ReplaceAllString(found[1], "")
		if !strings.Contains(string(metrics), "`"+name+"`") {
			t.Errorf("%s: there is no metric %s: %s", c.file, name, c.line)
		}
	})
	reasons := eventReasons(t)
	checked(t, `get events .*--field-selector reason=(\w+)`, func(c command, found []string) {
		if !slices.Contains(reasons, found[1]) {
			t.Errorf("%s: no Event has the reason %s: %s", c.file, found[1], c.line)
		}
	})
	labels := []string{names.ClusterNameLabel, names.ManagedByLabel, names.ComponentLabel, revision.ComponentLabel}
	checked(t, `kubectl .* -l '?([\w./-]+)=`, func(c command, found []string) {
		if !slices.Contains(labels, found[1]) {
			t.Errorf("%s: none of our objects has the label %s: %s", c.file, found[1], c.line)
		}
	})
}

// What they hold is no kind of the API, whose fields other tests know.
func TestCommandsReadWhatRevisionsHold(t *testing.T) {
	fields := []string{"inputs"} // Of renderings.
	content := reflect.TypeFor[history.Content]()
	for i := range content.NumField() {
		name, _, _ := strings.Cut(content.Field(i).Tag.Get("json"), ",")
		fields = append(fields, name)
	}
	checked(t, `get controllerrevisions? .*`, func(c command, found []string) {
		for _, field := range regexp.MustCompile(`\.data\.(\w+)`).FindAllStringSubmatch(found[0], -1) {
			if !slices.Contains(fields, field[1]) {
				t.Errorf("%s: no revision holds %s: %s", c.file, field[1], c.line)
			}
		}
	})
}

func TestCommandsRunTestsThatThereAre(t *testing.T) {
	tests := goTests(t)
	checked(t, `go test .*-run (Test\w+)`, func(c command, found []string) {
		if !slices.Contains(tests, found[1]) {
			t.Errorf("%s: there is no %s: %s", c.file, found[1], c.line)
		}
	})
}

func TestCommandsFindLinesThatTheLogHas(t *testing.T) {
	text, err := os.ReadFile("../../internal/writes/writes.go")
	if err != nil {
		t.Fatal(err)
	}
	checked(t, `logs deploy/\S+ \| grep '?([A-Z]\w+)`, func(c command, found []string) {
		if !strings.Contains(string(text), `Info("`+found[1]+`"`) {
			t.Errorf("%s: no write is logged as %s: %s", c.file, found[1], c.line)
		}
	})
}
