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

	"github.com/google/go-cmp/cmp"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/markdown"
)

// The providers are not built into clusterctl. A page with such a command leads to where its configuration is explained.
func TestCommandsOfClusterctlSayWhereItKnowsTheProvidersFrom(t *testing.T) {
	const explained = "install.md#tell-clusterctl"
	leads := map[string]bool{"install.md": true}
	for file, page := range pages(t) {
		if slices.ContainsFunc(page.Links, func(link string) bool { return strings.HasSuffix(link, explained) }) {
			leads[filepath.Base(file)] = true
		}
	}
	checked(t, `\bclusterctl (?:init|generate|upgrade) .*`, func(c command, found []string) {
		if !regexp.MustCompile(` --(config|from)[ =]`).MatchString(found[0]) && !leads[c.file] {
			t.Errorf("%s: want --config, --from, or a link to %s: %s", c.file, explained, c.line)
		}
	})
}

// A release has its version for a tag. Manifests that are written without a tag name one that only the lab has, and no node can pull.
func TestCommandsThatNameARegistryOfImagesNameTheirTag(t *testing.T) {
	checked(t, `\bmake .*\bIMAGE_REGISTRY=.*`, func(c command, found []string) {
		if !strings.Contains(found[0], " IMAGE_TAG=") {
			t.Errorf("%s: want IMAGE_TAG=, too: %s", c.file, c.line)
		}
	})
}

// variable is one that people may set when they install a provider.
type variable struct{ Name, Default, Of string }

// ofProvider are the providers' folders below config by what the documents call them.
var ofProvider = map[string]string{"control plane": "controlplane", "bootstrap": "bootstrap", "infrastructure": "infrastructure"}

var withDefault = regexp.MustCompile(`\$\{([A-Z_]+):=([^}]*)\}`)

func TestVariablesOfAnInstallationAreAsDocumented(t *testing.T) {
	documented, installed := map[variable]bool{}, map[variable]bool{}
	for _, row := range pages(t)["../../docs/install.md"].Rows("variable", "default", "of", "what it sets") {
		names, values, providers := markdown.Code(row["variable"]), markdown.Code(row["default"]), []string{row["of"]}
		if len(names) != 1 || len(values) != 1 {
			t.Fatalf("want one variable and its default in a row: %v", row)
		}
		if row["of"] == "all" {
			providers = slices.Collect(maps.Keys(ofProvider))
		}
		for _, provider := range providers {
			documented[variable{names[0], values[0], provider}] = true
		}
	}
	for provider, folder := range ofProvider {
		err := filepath.WalkDir(filepath.Join("../../config", folder), func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := os.ReadFile(file)
			for _, found := range withDefault.FindAllStringSubmatch(string(text), -1) {
				installed[variable{found[1], found[2], provider}] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(documented, installed); diff != "" {
		t.Errorf("what docs/install.md says (-) and what config has (+) differ:\n%s", diff)
	}
}
