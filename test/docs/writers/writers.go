// Package writers finds in the source of the three managers each function that writes: to an API server, to etcd, or to a
// host. docs/architecture.md has a row for each, and test/docs compares them.
package writers

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/types"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// Managers are the folders of the managers' programs.
var Managers = []string{"controlplane", "bootstrap", "infrastructure"}

// OnWorkers are the folders of the programs on workers.
var OnWorkers = []string{"bootstrap/apiserverlb/cmd/kok-apiserver-lb", "bootstrap/software/cmd/kok-software"}

// wraps is the package whose client every write goes through, and which decides on none.
const wraps = "internal/writes"

// hostParts begins the folders with the parts of a bootstrap and of a clean-up. hostSteps are the writes to a host that they are part of.
const hostParts = "infrastructure/hosts"

var hostSteps = []string{"bootstrap", "clean up"}

// Write is one place in the source that writes.
type Write struct {
	// Place is where it is, as file:line.
	Place string
	// Package is a folder of the repository, Function a function or Type.Method in it.
	Package, Function string
	// Verbs are create, update, patch, delete or apply for an API server, bootstrap or clean up for a host, and methods of
	// etcd's client.
	Verbs []string
	// Kinds are those of the object, with /subresource where it has one. They are empty where types do not tell.
	Kinds []string
	// FieldManager is the one that the write names; empty where the API server takes it from the program's name.
	FieldManager string
}

// Source is the source of the managers and of the programs on workers.
type Source struct {
	// Writes are all that were found.
	Writes []Write
	// Functions are all that there are, as folder:Function or folder:Type.Method.
	Functions map[string]bool
	// Packages are the folders that each program is built of, by its own folder.
	Packages map[string][]string
	// Names are the constants managerName of the programs, by their folders. An API server takes the field manager from it
	// where a write names none.
	Names map[string]string
}

// Read reads the source below the root of the repository.
func Read(root string) (*Source, error) {
	s := &Source{Functions: map[string]bool{}, Packages: map[string][]string{}, Names: map[string]string{}}
	var patterns []string
	for _, program := range slices.Concat(Managers, OnWorkers) {
		folders, err := builtOf(root, program)
		if err != nil {
			return nil, err
		}
		s.Packages[program] = folders
		for _, folder := range folders {
			patterns = append(patterns, "./"+folder)
		}
	}
	slices.Sort(patterns)
	loaded, err := packages.Load(&packages.Config{Dir: root, Mode: packages.LoadSyntax | packages.NeedModule}, slices.Compact(patterns)...)
	if err != nil {
		return nil, err
	}
	for _, p := range loaded {
		for _, problem := range p.Errors {
			return nil, problem
		}
		s.readPackage(p)
	}
	for _, manager := range Managers {
		if s.Names[manager] == "" {
			return nil, fmt.Errorf("%s declares no constant managerName", manager)
		}
	}
	return s, nil
}

// builtOf are the folders of this repository that a program is built of.
func builtOf(root, folder string) ([]string, error) {
	loaded, err := packages.Load(&packages.Config{Dir: root, Mode: packages.NeedName | packages.NeedImports | packages.NeedDeps | packages.NeedModule}, "./"+folder)
	if err != nil {
		return nil, err
	}
	var folders []string
	packages.Visit(loaded, nil, func(p *packages.Package) {
		if p.Module != nil && p.Module.Main {
			folders = append(folders, folderOf(p))
		}
	})
	return folders, nil
}

func folderOf(p *packages.Package) string {
	return strings.TrimPrefix(strings.TrimPrefix(p.PkgPath, p.Module.Path), "/")
}

func (s *Source) readPackage(p *packages.Package) {
	folder := folderOf(p)
	if name, ok := p.Types.Scope().Lookup("managerName").(*types.Const); ok {
		s.Names[folder] = constant.StringVal(name.Val())
	}
	for _, file := range p.Syntax {
		for _, declaration := range file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			name := "outside of functions"
			if ok {
				name = nameOf(function)
				s.Functions[folder+":"+name] = true
			}
			if folder == wraps {
				continue
			}
			for _, write := range (reader{p}).writes(declaration) {
				if strings.HasPrefix(folder, hostParts) && slices.Contains(write.Kinds, "host") && !slices.Contains(hostSteps, write.Verbs[0]) {
					continue
				}
				write.Package, write.Function = folder, name
				s.Writes = append(s.Writes, write)
			}
		}
	}
}

// nameOf is Function or Type.Method.
func nameOf(function *ast.FuncDecl) string {
	if function.Recv == nil {
		return function.Name.Name
	}
	of := function.Recv.List[0].Type
	for {
		switch t := of.(type) {
		case *ast.StarExpr:
			of = t.X
		case *ast.IndexExpr:
			of = t.X
		case *ast.Ident:
			return t.Name + "." + function.Name.Name
		default:
			return function.Name.Name
		}
	}
}

// reader reads the declarations of a package.
type reader struct {
	*packages.Package
}

// writes are those of a declaration. A method that is only named, for a call elsewhere, counts as well.
func (r reader) writes(declaration ast.Decl) []Write {
	var all []Write
	calls := map[ast.Expr]*ast.CallExpr{}
	ast.Inspect(declaration, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.CallExpr:
			calls[ast.Unparen(n.Fun)] = n
		case *ast.SelectorExpr:
			if used := r.TypesInfo.Uses[n.Sel]; used != nil {
				for _, action := range actionsOf(used) {
					all = append(all, r.write(n, calls[n], action))
				}
			}
		}
		return true
	})
	return all
}

func (r reader) write(selector *ast.SelectorExpr, call *ast.CallExpr, action action) Write {
	position := r.Fset.Position(selector.Pos())
	w := Write{Place: fmt.Sprintf("%s:%d", filepath.Base(position.Filename), position.Line), Verbs: action.verbs, Kinds: action.kinds}
	if call == nil {
		return w
	}
	for _, argument := range call.Args {
		if name := r.fieldOwner(argument); name != "" {
			w.FieldManager = name
		}
	}
	if len(action.kinds) > 0 || len(call.Args) <= action.object {
		return w
	}
	kind := kindOf(r.TypesInfo.TypeOf(call.Args[action.object]))
	parts := action.parts
	if len(parts) == 0 {
		parts = []string{r.subresource(selector.X)}
	}
	for _, part := range parts {
		if kind != "" {
			w.Kinds = append(w.Kinds, kind+part)
		}
	}
	return w
}

// fieldOwner is the name in client.FieldOwner(name).
func (r reader) fieldOwner(expression ast.Expr) string {
	value := r.TypesInfo.Types[expression]
	if call, ok := expression.(*ast.CallExpr); ok && len(call.Args) == 1 && isNamed(value.Type, clientPackage, "FieldOwner") {
		value = r.TypesInfo.Types[call.Args[0]]
	}
	if value.Value == nil || !isNamed(r.TypesInfo.TypeOf(expression), clientPackage, "FieldOwner") {
		return ""
	}
	return constant.StringVal(value.Value)
}

// subresource is /status of client.Status(), and /name of client.SubResource("name").
func (r reader) subresource(of ast.Expr) string {
	call, ok := of.(*ast.CallExpr)
	if !ok {
		return ""
	}
	selector, ok := call.Fun.(*ast.SelectorExpr)
	switch {
	case !ok:
		return ""
	case selector.Sel.Name == "Status":
		return "/status"
	case selector.Sel.Name == "SubResource" && len(call.Args) == 1 && r.TypesInfo.Types[call.Args[0]].Value != nil:
		return "/" + constant.StringVal(r.TypesInfo.Types[call.Args[0]].Value)
	}
	return ""
}
