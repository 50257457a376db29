package main

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/golist"
)

// product are the folders whose packages may be parallel; everything is all packages.
var product = []string{"./api/...", "./bootstrap/...", "./controlplane/...", "./infrastructure/...", "./internal/..."}

const everything = "./..."

func byPath(packages []golist.Package) map[string]golist.Package {
	found := map[string]golist.Package{}
	for _, p := range packages {
		found[p.ImportPath] = p
	}
	return found
}

// longestFirst gives the paths of packages in the order in which go test is to begin with them: where most is tested first, by the size of
// the files with tests. The longest would else run alone in the end.
func longestFirst(packages []golist.Package) ([]string, error) {
	sizes := map[string]int64{}
	var paths []string
	for _, p := range packages {
		paths = append(paths, p.ImportPath)
		for _, name := range p.TestFiles() {
			file, err := os.Stat(filepath.Join(p.Dir, name))
			if err != nil {
				return nil, err
			}
			sizes[p.ImportPath] += file.Size()
		}
	}
	slices.SortStableFunc(paths, func(a, b string) int { return cmp.Compare(sizes[b], sizes[a]) })
	return paths, nil
}

// parallel reports whether the package starts goroutines, or guards memory that several of them share.
func parallel(p golist.Package) (bool, error) {
	if slices.ContainsFunc(p.Imports, guards) {
		return true, nil
	}
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return false, err
		}
		starts := false
		ast.Inspect(file, func(node ast.Node) bool {
			_, is := node.(*ast.GoStmt)
			starts = starts || is
			return !starts
		})
		if starts {
			return true, nil
		}
	}
	return false, nil
}

// runner is the project's own package that runs what it is given in goroutines.
const runner = "github.com/kube-on-kube/cluster-api-provider-kok/internal/background"

// guards reports whether an import is for goroutines.
func guards(path string) bool {
	return path == "sync" || path == "sync/atomic" || path == runner || strings.HasPrefix(path, "golang.org/x/sync/")
}
