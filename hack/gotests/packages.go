package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// goPackage is what go list tells of a package.
type goPackage struct {
	ImportPath, Dir           string
	GoFiles, Imports          []string
	TestGoFiles, XTestGoFiles []string
}

// product are the folders whose packages may be parallel; everything is all packages.
var product = []string{"./api/...", "./bootstrap/...", "./controlplane/...", "./infrastructure/...", "./internal/..."}

const everything = "./..."

// list asks go list about the packages that match the patterns, with build tags.
func list(ctx context.Context, tags string, patterns ...string) ([]goPackage, error) {
	args := append([]string{"list", "-tags=" + tags, "-json=ImportPath,Dir,GoFiles,Imports,TestGoFiles,XTestGoFiles"}, patterns...)
	out, err := exec.CommandContext(ctx, "go", args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w\n%s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("list the packages %v: %w", patterns, err)
	}
	var packages []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the answer of go list: %w", err)
		}
		packages = append(packages, p)
	}
}

// tests is the number of files with tests.
func (p goPackage) tests() int { return len(p.TestGoFiles) + len(p.XTestGoFiles) }

func (p goPackage) tested() bool { return p.tests() > 0 }

func byPath(packages []goPackage) map[string]goPackage {
	found := map[string]goPackage{}
	for _, p := range packages {
		found[p.ImportPath] = p
	}
	return found
}

// parallel reports whether the package starts goroutines, or guards memory that several of them share.
func (p goPackage) parallel() (bool, error) {
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
