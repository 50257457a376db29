// Package docs checks the examples in the documents.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rendering"
	"github.com/kube-on-kube/cluster-api-provider-kok/hack/markdown"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/manifests"
)

var example = regexp.MustCompile("(?s)```yaml\n(.*?)```")

func TestExamplesAreObjectsThatTheAPIKnows(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	decoded := 0
	for _, file := range append(files, "../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range example.FindAllStringSubmatch(string(text), -1) {
			objects, err := manifests.Decode(block[1])
			if err != nil {
				t.Errorf("%s: %v", filepath.Base(file), err)
			}
			for _, object := range objects {
				if controlPlane, ok := object.(*controlplanev1.KOKControlPlane); ok {
					problems := rendering.ValidatePatches(controlPlane.Spec, versions.BuiltIn(), nil, field.NewPath("spec", "patches"))
					if len(problems) > 0 {
						t.Errorf("%s: %v", filepath.Base(file), problems.ToAggregate())
					}
				}
				decoded++
			}
		}
	}
	if decoded < 3 {
		t.Errorf("only %d examples were found", decoded)
	}
}

// pages are all documents by their paths.
func pages(t *testing.T) map[string]*markdown.Page {
	t.Helper()
	all := map[string]*markdown.Page{}
	for _, pattern := range []string{"../../docs/*.md", "../../docs/decisions/*.md", "../../docs/reference/*.md", "../../README.md", "../../CONTRIBUTING.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all[file] = markdown.Parse(string(text))
		}
	}
	return all
}

func TestLinksBetweenDocumentsLeadSomewhere(t *testing.T) {
	all := pages(t)
	followed := 0
	for file, page := range all {
		for _, link := range page.Links {
			if strings.Contains(link, ":") {
				continue
			}
			path, anchor, _ := strings.Cut(link, "#")
			target := filepath.Join(filepath.Dir(file), path)
			if path == "" {
				target = file
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", file, link, err)
			} else if anchor != "" && (all[target] == nil || !slices.Contains(all[target].Anchors(), anchor)) {
				t.Errorf("%s links to %s, and there is no such heading", file, link)
			}
			followed++
		}
	}
	if followed < 5 {
		t.Errorf("only %d links were found", followed)
	}
}

// A document that nothing lists is not found.
func TestEveryDocumentIsListedWherePeopleBegin(t *testing.T) {
	all := pages(t)
	listed := slices.Concat(all["../../README.md"].Links, all["../../CONTRIBUTING.md"].Links)
	for _, link := range all["../../docs/decisions.md"].Links {
		path, _, _ := strings.Cut(link, "#")
		listed = append(listed, "docs/"+path)
	}
	for file := range all {
		path, err := filepath.Rel("../..", file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(path, "docs/") && !slices.Contains(listed, path) {
			t.Errorf("neither README.md nor CONTRIBUTING.md nor docs/decisions.md links to %s", path)
		}
	}
}
