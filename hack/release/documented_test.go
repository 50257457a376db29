package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/markdown"
)

// clusterctlConfig is the part of clusterctl's configuration that says where providers are.
type clusterctlConfig struct {
	Providers []struct{ Name, Type, URL string } `json:"providers"`
}

// ours are the providers of this repository by type and name, with what their URLs have after the folder of all.
func (c clusterctlConfig) ours() map[string]string {
	found := map[string]string{}
	for _, p := range c.Providers {
		if p.Name != "cluster-api" && p.Name != "kubeadm" {
			_, file, _ := strings.Cut(p.URL, "/repository/")
			found[p.Type+" "+p.Name] = file
		}
	}
	return found
}

func TestTheProvidersAreDocumentedWhereTheyAre(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository(t), "..", "clusterctl.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var written, documented clusterctlConfig
	if err := yaml.Unmarshal(text, &written); err != nil {
		t.Fatal(err)
	}
	page, err := markdown.Read("docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range page.Blocks {
		if strings.HasPrefix(block.Code, "providers:") {
			if err := yaml.UnmarshalStrict([]byte(block.Code), &documented); err != nil {
				t.Fatal(err)
			}
		}
	}
	if diff := cmp.Diff(written.ours(), documented.ours()); diff != "" {
		t.Errorf("what is written (-) and what docs/install.md says (+) differ:\n%s", diff)
	}
}
