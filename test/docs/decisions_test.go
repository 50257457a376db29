package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/markdown"
)

const decisionsFolder = "../../docs/decisions"

var (
	decisionPart = regexp.MustCompile(`(?m)^\*\*(\w+)\.\*\*\s+\S`)
	citation     = regexp.MustCompile(`docs/(decisions(?:/[a-z-]+)?\.md)(?:#([a-z0-9_-]+))?`)
)

func TestEachDecisionHasItsContextAndItsPrice(t *testing.T) {
	for file, text := range decisionPages(t) {
		for _, decision := range strings.Split(text, "\n## ")[1:] {
			title, body, _ := strings.Cut(decision, "\n")
			var parts []string
			for _, found := range decisionPart.FindAllStringSubmatch(body, -1) {
				parts = append(parts, found[1])
			}
			if !slices.Equal(parts, []string{"Context", "Decision", "Price"}) {
				t.Errorf("%s, %q: has the parts %v, want Context, Decision, Price", file, title, parts)
			}
		}
	}
}

func TestDecisionsAreListedInOrder(t *testing.T) {
	index, err := markdown.Read("docs/decisions.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := 0
	for file, text := range decisionPages(t) {
		var links, want []string
		for _, link := range index.Links {
			if strings.HasPrefix(link, "decisions/"+file+"#") {
				links = append(links, link)
			}
		}
		for i, anchor := range markdown.Parse(text).Anchors() {
			if i > 0 {
				want = append(want, "decisions/"+file+"#"+anchor)
			}
		}
		if !slices.Equal(links, want) {
			t.Errorf("docs/decisions.md lists of %s\n%s\nwant\n%s", file, strings.Join(links, "\n"), strings.Join(want, "\n"))
		}
		listed += len(want)
	}
	if listed < 50 {
		t.Errorf("only %d decisions were found", listed)
	}
}

func TestCodeCitesDecisionsThatExist(t *testing.T) {
	all := pages(t)
	cited := 0
	for file, text := range sources(t) {
		for _, found := range citation.FindAllStringSubmatch(text, -1) {
			page, anchor := all["../../docs/"+found[1]], found[2]
			if page == nil || anchor == "" || !slices.Contains(page.Anchors(), anchor) {
				t.Errorf("%s cites %s, and there is no such decision", file, found[0])
			}
			cited++
		}
	}
	if cited < 10 {
		t.Errorf("only %d citations were found", cited)
	}
}

// decisionPages are the pages with decisions, by the names of their files.
func decisionPages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(decisionsFolder + "/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no pages: %v", decisionsFolder, err)
	}
	all := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(file)] = string(text)
	}
	return all
}

// sources are the Go and YAML files of the product by their paths.
func sources(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, root := range []string{"api", "bootstrap", "cmd", "config", "controlplane", "infrastructure", "internal", "templates"} {
		err := filepath.WalkDir(filepath.Join("../..", root), func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !slices.Contains([]string{".go", ".yaml"}, filepath.Ext(file)) {
				return err
			}
			text, err := os.ReadFile(file)
			all[file] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}
