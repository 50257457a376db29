package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/markdown"
)

// reasonOf is the place of the reason among the arguments of events.EventRecorder's Eventf.
const reasonOf = 3

// eventReasons are the reasons in the source of the control plane manager: literals that Eventf is called with, and
// constants whose names begin with "reason".
func eventReasons(t *testing.T) []string {
	t.Helper()
	found := map[string]bool{}
	add := func(expression ast.Expr) {
		if literal, ok := expression.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			reason, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			found[reason] = true
		}
	}
	visit := func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.CallExpr:
			selector, ok := node.Fun.(*ast.SelectorExpr)
			if !ok || selector.Sel.Name != "Eventf" || len(node.Args) <= reasonOf {
				break
			}
			if !isReason(node.Args[reasonOf]) {
				t.Error("an Event has a reason that is neither a literal nor a constant named reason…, so that nobody can compare it with the reference")
			}
			add(node.Args[reasonOf])
		case *ast.ValueSpec:
			for i, name := range node.Names {
				if strings.HasPrefix(name.Name, "reason") && i < len(node.Values) {
					add(node.Values[i])
				}
			}
		}
		return true
	}
	err := filepath.WalkDir("../../controlplane", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err == nil {
			ast.Inspect(file, visit)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(found))
}

// isReason is true for a literal, and for a variable or field that has one of the constants.
func isReason(expression ast.Expr) bool {
	switch given := expression.(type) {
	case *ast.BasicLit:
		return true
	case *ast.Ident:
		return given.Name == "reason"
	case *ast.SelectorExpr:
		return given.Sel.Name == "reason"
	}
	return false
}

func TestEveryEventOfAControlPlaneIsListed(t *testing.T) {
	page := pages(t)["../../docs/reference/events.md"]
	var listed []string
	for _, row := range page.Rows("reason", "when", "what a person does") {
		listed = append(listed, markdown.Code(row["reason"])...)
		if row["when"] == "" || row["what a person does"] == "" {
			t.Errorf("%s: a column is empty", row["reason"])
		}
	}
	slices.Sort(listed)
	found := eventReasons(t)
	if len(found) < 10 {
		t.Fatalf("only %v were found in the source", found)
	}
	if diff := cmp.Diff(found, listed); diff != "" {
		t.Errorf("the source (-) and docs/reference/events.md (+) differ:\n%s", diff)
	}
}
