package artifacts

import (
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

const upstreamMod = `module k8s.io/kubernetes

go 1.26.0

godebug default=go1.26

require (
	github.com/spf13/pflag v1.0.10
	k8s.io/api v0.0.0
)

require golang.org/x/net v0.58.0 // indirect

replace (
	example.com/old => example.com/fork v1.2.3
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/sample-controller => ./staging/src/k8s.io/sample-controller
)
`

func TestBuildModulePinsWhatUpstreamPins(t *testing.T) {
	upstream, err := modfile.Parse("go.mod", []byte(upstreamMod), nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := buildModule("kok.lab/kubernetes", upstream, "v1.36.3", func(string) (string, error) { return stagingVersion("v1.36.3") })
	if err != nil {
		t.Fatal(err)
	}
	got, err := modfile.Parse("go.mod", out, nil)
	if err != nil {
		t.Fatalf("%v in:\n%s", err, out)
	}
	versions := map[string]string{}
	for _, r := range got.Require {
		versions[r.Mod.Path] = r.Mod.Version
	}
	for path, want := range map[string]string{
		"k8s.io/kubernetes":      "v1.36.3",
		"k8s.io/api":             "v0.36.3",
		"github.com/spf13/pflag": "v1.0.10",
		"golang.org/x/net":       "v0.58.0",
	} {
		if versions[path] != want {
			t.Errorf("requires %s %q, want %s", path, versions[path], want)
		}
	}
	replaced := map[string]string{}
	for _, r := range got.Replace {
		replaced[r.Old.Path] = r.New.Path + "@" + r.New.Version
	}
	for path, want := range map[string]string{
		"k8s.io/api":               "k8s.io/api@v0.36.3",
		"k8s.io/sample-controller": "k8s.io/sample-controller@v0.36.3",
		"example.com/old":          "example.com/fork@v1.2.3",
	} {
		if replaced[path] != want {
			t.Errorf("replaces %s by %q, want %s", path, replaced[path], want)
		}
	}
	if got.Go.Version != "1.26.0" || len(got.Godebug) != 1 {
		t.Errorf("go %s and %d godebug lines, want upstream's 1.26.0 and 1", got.Go.Version, len(got.Godebug))
	}
}

func TestBuildModuleDropsReplacementsThatHaveNoPublishedVersion(t *testing.T) {
	upstream, err := modfile.Parse("go.mod", []byte("module go.etcd.io/etcd/server/v3\n\ngo 1.26\n\nrequire go.etcd.io/etcd/api/v3 v3.6.16\n\n"+
		"replace go.etcd.io/etcd => ./FORBIDDEN_DEPENDENCY\n\nreplace go.etcd.io/etcd/api/v3 => ../api\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := buildModule("kok.lab/etcd", upstream, "v3.6.16", etcdRecipe("v3.6.16").local)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(out), "FORBIDDEN") || !strings.Contains(string(out), "go.etcd.io/etcd/api/v3 => go.etcd.io/etcd/api/v3 v3.6.16") {
		t.Errorf("unexpected go.mod:\n%s", out)
	}
}

func TestTheFormerEtcdIsBuiltWithTheNumberOfItsOldClient(t *testing.T) {
	upstream, err := modfile.Parse("go.mod", []byte("module go.etcd.io/etcd/server/v3\n\ngo 1.26\n\n"+
		"require (\n\tgo.etcd.io/etcd/api/v3 v3.5.35\n\tgo.etcd.io/etcd/client/v2 v2.305.35\n)\n\n"+
		"replace (\n\tgo.etcd.io/etcd/api/v3 => ../api\n\tgo.etcd.io/etcd/client/v2 => ../client/v2\n)\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := buildModule("kok.lab/etcd", upstream, "v3.5.35", formerEtcdRecipe("v3.5.35").local)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"go.etcd.io/etcd/api/v3 => go.etcd.io/etcd/api/v3 v3.5.35", "go.etcd.io/etcd/client/v2 v2.305.35"} {
		if !strings.Contains(string(out), line) {
			t.Errorf("it does not say %q:\n%s", line, out)
		}
	}
	if strings.Contains(string(out), "client/v2 =>") {
		t.Errorf("it replaces the old client:\n%s", out)
	}
}

func TestStagingVersion(t *testing.T) {
	if got, err := stagingVersion("v1.36.3"); err != nil || got != "v0.36.3" {
		t.Errorf("stagingVersion(v1.36.3) = %q, %v; want v0.36.3", got, err)
	}
	for _, bad := range []string{"1.36.3", "v2.0.0", "latest", ""} {
		if got, err := stagingVersion(bad); err == nil {
			t.Errorf("stagingVersion(%q) = %q, want an error", bad, got)
		}
	}
}

func TestBinaryName(t *testing.T) {
	for pkg, want := range map[string]string{
		"k8s.io/kubernetes/cmd/kubelet":          "kubelet",
		"go.etcd.io/etcd/server/v3":              "server",
		"sigs.k8s.io/kustomize/kustomize/v5":     "kustomize",
		"sigs.k8s.io/cluster-api/core":           "core",
		"sigs.k8s.io/cluster-api/cmd/clusterctl": "clusterctl",
	} {
		if got := binaryName(pkg); got != want {
			t.Errorf("binaryName(%s) = %s, want %s", pkg, got, want)
		}
	}
}
