package docs

import (
	"slices"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/golist"
)

// mayImport are the packages of providers that others use, each with the reason: programs and files that both know. All else
// that they share is in api and internal.
var mayImport = []allowedImport{
	{"internal/cli", "controlplane/names", "kok finds objects by the labels and names that the manager gave them"},
	{"internal/cli", "bootstrap/apiserverlb/configuration", "kok leads an administrator's programs to the API servers by a load balancer of their own"},
	{"internal/cli", "bootstrap/apiserverlb/unit", "kok uses the folder that belongs to it on an administrator's machine"},
	{"internal/cli", "bootstrap/software", "kok fills in what machines compare their downloads with"},
	{"internal/cli", "controlplane/etcd/agent/archive", "kok reads snapshots as the agent wrote them"},
	{"internal/cli", "controlplane/etcd/agent/backup", "kok knows the keys of the Secret of a store by their names"},
	{"internal/cli", "controlplane/etcd/agent/listing", "kok says which snapshots a store has"},
	{"internal/cli", "controlplane/etcd/agent/store", "kok reads the store of snapshots"},
	{"internal/cli", "controlplane/components/registry", "kok says which components there are, and which take a former rendering again"},
	{"internal/cli", "controlplane/etcdclusters", "kok reads what the status says of the data etcd"},
	{"internal/cli", "controlplane/history", "kok shows the revisions of spec, and takes changes back by them"},
	{"internal/cli", "controlplane/revision", "kok shows what was rendered of a revision of spec"},
	{"internal/cli", "controlplane/pki", "kok writes the keys that a restored control plane begins with"},
	{"internal/cli", "infrastructure/ssh", "kok reaches hosts as the manager does"},
	{"controlplane", "bootstrap/apiserverlb/configuration", "the manager writes the configuration of workers' load balancers"},
	{"controlplane", "bootstrap/apiserverlb/unit", "that configuration names a file of their unit"},
	{"infrastructure", "bootstrap/software", "the manager has kok-software install and clean up on hosts"},
}

// allowedImport is of a folder, with all below it, and of one package.
type allowedImport struct{ importer, imported, because string }

// api is for those who import nothing else of the project. internal/cli is the program kok, which knows what all three providers
// write.
func TestWhatProvidersShareImportsNoProvider(t *testing.T) {
	const project = "github.com/kube-on-kube/cluster-api-provider-kok/"
	providers := []string{"controlplane", "bootstrap", "infrastructure"}
	var patterns []string
	for _, folder := range append(providers, "api", "internal") {
		patterns = append(patterns, "../../"+folder+"/...")
	}
	packages, err := golist.Packages(t.Context(), "", patterns...)
	if err != nil {
		t.Fatal(err)
	}
	used := map[int]bool{}
	for _, p := range packages {
		importer := strings.TrimPrefix(p.ImportPath, project)
		own, _, _ := strings.Cut(importer, "/")
		for _, path := range p.Imports {
			imported, ours := strings.CutPrefix(path, project)
			folder, _, _ := strings.Cut(imported, "/")
			if !ours || folder == own || !slices.Contains(providers, folder) && (own != "api" || folder != "internal") {
				continue
			}
			i := slices.IndexFunc(mayImport, func(may allowedImport) bool {
				return may.imported == imported && (importer == may.importer || strings.HasPrefix(importer, may.importer+"/"))
			})
			if i < 0 {
				t.Errorf("%s imports %s: move what both need to internal or api, or say here why not", importer, imported)
			}
			used[i] = true
		}
	}
	for i, may := range mayImport {
		if !used[i] {
			t.Errorf("%s imports %s no more", may.importer, may.imported)
		}
	}
}
