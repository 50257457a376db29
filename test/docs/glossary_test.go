package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/markdown"
)

// TestTheGlossaryIsAlphabeticalAndComplete holds the table to its form, so that a word is found.
func TestTheGlossaryIsAlphabeticalAndComplete(t *testing.T) {
	rows := glossary(t)
	var words []string
	for _, row := range rows {
		for _, column := range []string{"word", "what it is", "where", "not"} {
			if row[column] == "" {
				t.Errorf("%q has nothing in column %q", row["word"], column)
			}
		}
		words = append(words, strings.ToLower(row["word"]))
	}
	for i := 1; i < len(words); i++ {
		if words[i-1] >= words[i] {
			t.Errorf("%q must come after %q, and once", words[i-1], words[i])
		}
	}
}

// TestWhatTheGlossaryNamesIsInTheCode reads column "where": a file or folder, then what Go declares in it.
func TestWhatTheGlossaryNamesIsInTheCode(t *testing.T) {
	for _, row := range glossary(t) {
		for _, place := range strings.Split(row["where"], ";") {
			named := markdown.Code(place)
			if len(named) == 0 {
				t.Errorf("%q names no folder in %q", row["word"], place)
				continue
			}
			folder := filepath.Join("../..", named[0])
			if _, err := os.Stat(folder); err != nil {
				t.Errorf("%q names %s: %v", row["word"], named[0], err)
				continue
			}
			if len(named) == 1 {
				continue
			}
			declared := declarations(t, folder)
			for _, name := range named[1:] {
				if !slices.Contains(declared, name) {
					t.Errorf("%q names %s of %s, which declares no such name", row["word"], name, named[0])
				}
			}
		}
	}
}

func glossary(t *testing.T) []map[string]string {
	t.Helper()
	page, err := markdown.Read("docs/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := page.Rows("word", "what it is", "where", "not")
	if len(rows) < 30 {
		t.Fatalf("docs/glossary.md has only %d words", len(rows))
	}
	return rows
}

// declarations are the names of types, functions, methods, fields, constants and variables of a package, without its tests.
func declarations(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.FuncDecl:
				names = append(names, n.Name.Name)
				return false
			case *ast.TypeSpec:
				names = append(names, n.Name.Name)
			case *ast.ValueSpec:
				names = append(names, identifiers(n.Names)...)
			case *ast.Field:
				names = append(names, identifiers(n.Names)...)
			}
			return true
		})
	}
	return names
}

func identifiers(all []*ast.Ident) []string {
	names := make([]string, 0, len(all))
	for _, identifier := range all {
		names = append(names, identifier.Name)
	}
	return names
}
