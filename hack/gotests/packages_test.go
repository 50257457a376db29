package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/golist"
)

func TestParallel(t *testing.T) {
	for name, test := range map[string]struct {
		imports []string
		source  string
		want    bool
	}{
		"it starts a goroutine":      {nil, "func f() { if true { go f() } }", true},
		"it has a lock":              {[]string{"fmt", "sync"}, "", true},
		"it has an atomic value":     {[]string{"sync/atomic"}, "", true},
		"it has a group":             {[]string{"golang.org/x/sync/errgroup"}, "", true},
		"it calls what it is given":  {[]string{"context"}, "func f(g func()) { defer g() }", false},
		"it imports one named alike": {[]string{"example.com/sync"}, "", false},
		"it only speaks of the word": {nil, "// go f()\nconst s = `go f()`", false},
	} {
		t.Run(name, func(t *testing.T) {
			p := golist.Package{Dir: t.TempDir(), GoFiles: []string{"p.go"}, Imports: test.imports}
			if err := os.WriteFile(filepath.Join(p.Dir, "p.go"), []byte("package p\n"+test.source), 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := parallel(p); err != nil || got != test.want {
				t.Errorf("%t, %v", got, err)
			}
		})
	}
}

func TestThoseThatAreKnownToBeParallelAreFound(t *testing.T) {
	const project = "github.com/kube-on-kube/cluster-api-provider-kok/"
	packages, err := golist.Packages(t.Context(), "", "../../controlplane/...", "../../internal/...", "../../bootstrap/...")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"controlplane/flow", "controlplane/hostclusters", "controlplane/probe", "internal/background",
		"bootstrap/apiserverlb/balancer", "bootstrap/apiserverlb/health", "bootstrap/apiserverlb/discovery",
	} {
		i := slices.IndexFunc(packages, func(p golist.Package) bool { return p.ImportPath == project+name })
		if i < 0 {
			t.Errorf("%s is not there", name)
			continue
		}
		tested := len(packages[i].TestFiles()) > 0
		if is, err := parallel(packages[i]); err != nil || !is || !tested {
			t.Errorf("%s is parallel: %t, tested: %t, %v", name, is, tested, err)
		}
	}
}

func TestThePackageWithTheMostTestsBegins(t *testing.T) {
	packages := []golist.Package{
		{ImportPath: "a", Dir: t.TempDir(), TestGoFiles: []string{"a_test.go"}},
		{ImportPath: "b", Dir: t.TempDir(), TestGoFiles: []string{"b_test.go"}, XTestGoFiles: []string{"c_test.go"}},
		{ImportPath: "d", Dir: t.TempDir(), TestGoFiles: []string{"d_test.go"}},
	}
	for _, p := range packages {
		for _, name := range p.TestFiles() {
			if err := os.WriteFile(filepath.Join(p.Dir, name), []byte("package p"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got, err := longestFirst(packages); err != nil || !slices.Equal(got, []string{"b", "a", "d"}) {
		t.Errorf("%v, %v", got, err)
	}
}
