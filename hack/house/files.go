package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/hack/golist"
)

// file is a Go file that a person wrote.
type file struct {
	// path is below the repository.
	path  string
	lines int
	// test is true for tests, and for all that only tests, benchmarks and the repository itself use.
	test bool
	// named are the components that the file names.
	named []string
}

func (f file) folder() string { return path.Dir(f.path) }

func (f file) topFolder() string {
	top, _, _ := strings.Cut(f.path, "/")
	return top
}

// tags are build tags without which some files are not compiled.
const tags = "envtest,root,e2e,lab,lb,bench"

// productFolders have what is released. All other folders are about tests and the repository.
var productFolders = []string{"api", "bootstrap", "cmd", "controlplane", "infrastructure", "internal"}

// find reads every file of the repository's module.
func find(ctx context.Context) ([]file, error) {
	root, err := filepath.Abs(".")
	if err != nil {
		return nil, err
	}
	packages, err := golist.Packages(ctx, tags, "./...")
	if err != nil {
		return nil, err
	}
	var files []file
	for _, p := range packages {
		for _, name := range slices.Concat(p.GoFiles, p.TestFiles()) {
			below, err := filepath.Rel(root, filepath.Join(p.Dir, name))
			if err != nil {
				return nil, err
			}
			f, written, err := read(filepath.ToSlash(below))
			if err != nil {
				return nil, err
			}
			if written {
				files = append(files, f)
			}
		}
	}
	return files, nil
}

// read reads a file, and reports whether a person wrote it.
func read(name string) (file, bool, error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return file{}, false, fmt.Errorf("read %s: %w", name, err)
	}
	f := file{path: name, lines: set.File(parsed.Pos()).LineCount(), named: namedIn(parsed)}
	f.test = !slices.Contains(productFolders, f.topFolder()) || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(f.folder(), "test")
	return f, !ast.IsGenerated(parsed), nil
}

// constants are the names of components by their constants in package names.
var constants = map[string]string{
	"EtcdData": names.EtcdData, "EtcdEvents": names.EtcdEvents, "KubeAPIServer": names.KubeAPIServer,
	"KubeControllerManager": names.KubeControllerManager, "KubeScheduler": names.KubeScheduler,
}

// namedIn are the components that a file names: by a constant, or by a string that is their name and no more.
func namedIn(parsed *ast.File) []string {
	var named []string
	ast.Inspect(parsed, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.SelectorExpr:
			if in, is := n.X.(*ast.Ident); is && in.Name == "names" && constants[n.Sel.Name] != "" {
				named = append(named, constants[n.Sel.Name])
			}
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
				named = append(named, text)
			}
		}
		return true
	})
	return named
}

// placesOf are the files of the product that name a component outside of the component's folder.
func placesOf(component string, files []file) []string {
	own, _, isEtcd := strings.Cut(component, "etcd-")
	if own = strings.ReplaceAll(own, "-", ""); isEtcd {
		own = "etcd"
	}
	var places []string
	for _, f := range files {
		if !f.test && slices.Contains(f.named, component) && f.folder() != "controlplane/components/"+own {
			places = append(places, f.path)
		}
	}
	slices.Sort(places)
	return places
}
