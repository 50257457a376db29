// Package docs checks the examples in the documents.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rendering"
	"github.com/kube-on-kube/cluster-api-provider-kok/hack/markdown"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

var example = regexp.MustCompile("(?s)```yaml\n(.*?)```")

func TestExamplesAreObjectsThatTheAPIKnows(t *testing.T) {
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, autoscalingv2.AddToScheme, clusterv1.AddToScheme, bootstrapv1.AddToScheme, controlplanev1.AddToScheme, infrav1.AddToScheme,
	} {
		if err := add(types); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(types, serializer.EnableStrict).UniversalDeserializer()
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
			for document := range strings.SplitSeq(block[1], "\n---\n") {
				object, _, err := decoder.Decode([]byte(document), nil, nil)
				if err != nil {
					t.Errorf("%s: %v in\n%s", filepath.Base(file), err, document)
				}
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
	for _, pattern := range []string{"../../docs/*.md", "../../docs/reference/*.md", "../../README.md", "../../CONTRIBUTING.md"} {
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
	for file := range all {
		path, err := filepath.Rel("../..", file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(path, "docs/") && !slices.Contains(listed, path) {
			t.Errorf("neither README.md nor CONTRIBUTING.md links to %s", path)
		}
	}
}
