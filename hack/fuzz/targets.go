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

// target is one function that go test fuzzes.
type target struct{ pkg, name string }

func (t target) String() string { return t.pkg + " " + t.name }

// find gives the targets of the packages that match the patterns, by package and name.
func find(ctx context.Context, patterns ...string) ([]target, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-json=ImportPath,Dir,TestGoFiles,XTestGoFiles"}, patterns...)...)
	stderr := &bytes.Buffer{}
	cmd.Stderr = stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages %v: %w\n%s", patterns, err, stderr)
	}
	var all []target
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Dir           string
			TestGoFiles, XTestGoFiles []string
		}
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the answer of go list: %w", err)
		}
		for _, file := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			names, err := namesIn(filepath.Join(p.Dir, file))
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				all = append(all, target{p.ImportPath, name})
			}
		}
	}
}

// namesIn are the functions of a file that take a *testing.F and are called Fuzz and something.
func namesIn(path string) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("find what is fuzzed: %w", err)
	}
	var names []string
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if ok && function.Recv == nil && strings.HasPrefix(function.Name.Name, "Fuzz") && takesF(function.Type) {
			names = append(names, function.Name.Name)
		}
	}
	return names, nil
}

func takesF(function *ast.FuncType) bool {
	if len(function.Params.List) != 1 {
		return false
	}
	pointer, ok := function.Params.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	selector, ok := pointer.X.(*ast.SelectorExpr)
	return ok && selector.Sel.Name == "F"
}
