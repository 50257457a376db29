// Package golist asks go list about packages of the project, for tools that find tests by their code.
package golist

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

// Package is what go list tells of a package.
type Package struct {
	ImportPath, Dir           string
	GoFiles, Imports          []string
	TestGoFiles, XTestGoFiles []string
}

// Packages are those that match the patterns, with build tags, which may be none.
func Packages(ctx context.Context, tags string, patterns ...string) ([]Package, error) {
	args := append([]string{"list", "-tags=" + tags, "-json=ImportPath,Dir,GoFiles,Imports,TestGoFiles,XTestGoFiles"}, patterns...)
	out, err := exec.CommandContext(ctx, "go", args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w\n%s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("list the packages %v: %w", patterns, err)
	}
	var packages []Package
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p Package
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

// TestFiles are the names of the files with tests.
func (p Package) TestFiles() []string { return slices.Concat(p.TestGoFiles, p.XTestGoFiles) }

// Functions are the names of functions of the package's tests that begin with a prefix and take one argument, a pointer to a
// type of the package testing: T of tests, F of what is fuzzed.
func (p Package) Functions(prefix, argument string) ([]string, error) {
	var names []string
	for _, file := range p.TestFiles() {
		found, err := functionsIn(filepath.Join(p.Dir, file), prefix, argument)
		if err != nil {
			return nil, err
		}
		names = append(names, found...)
	}
	return names, nil
}

func functionsIn(path, prefix, argument string) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("find the functions of tests: %w", err)
	}
	var names []string
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if ok && function.Recv == nil && strings.HasPrefix(function.Name.Name, prefix) && takes(function.Type, argument) {
			names = append(names, function.Name.Name)
		}
	}
	return names, nil
}

// takes reports whether a function takes a pointer to the type alone.
func takes(function *ast.FuncType, argument string) bool {
	if len(function.Params.List) != 1 || len(function.Params.List[0].Names) > 1 {
		return false
	}
	pointer, ok := function.Params.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	selector, ok := pointer.X.(*ast.SelectorExpr)
	return ok && selector.Sel.Name == argument
}
