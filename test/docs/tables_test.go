package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/markdown"
)

// Package comments with tables that say where something is done, as "folder/file.go: function, Type.Method".
const (
	upgradesTable = "controlplane/controllers/doc.go"
	growthTable   = "controlplane/etcd/membership/doc.go"
)

var (
	codePlace  = regexp.MustCompile(`([a-z/]+\.go): ([\w.]+(?:, [\w.]+)*)`)
	growthStep = regexp.MustCompile(`^(\d+)\s`)
	toldEvent  = regexp.MustCompile(`Event ([A-Z]\w+)`)
)

// tableLines are the indented lines of a package comment.
func tableLines(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", file))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if row, found := strings.CutPrefix(line, "//\t"); found {
			lines = append(lines, strings.TrimRight(row, "\n"))
		}
	}
	return lines
}

// functions are those that a file declares, methods as "Type.Method", and those of them that make a step wait or postpone.
func functions(t *testing.T, file string) (declared, waiting []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, declaration := range parsed.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := function.Name.Name
		if function.Recv != nil {
			receiver := function.Recv.List[0].Type
			if pointer, ok := receiver.(*ast.StarExpr); ok {
				receiver = pointer.X
			}
			if of, ok := receiver.(*ast.Ident); ok {
				name = of.Name + "." + name
			}
		}
		declared = append(declared, name)
		ast.Inspect(function, func(node ast.Node) bool {
			selector, ok := node.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			of, ok := selector.X.(*ast.Ident)
			if ok && of.Name == "flow" && (selector.Sel.Name == "Waiting" || selector.Sel.Name == "DoneOrWaiting" || selector.Sel.Name == "Postponed") && !slices.Contains(waiting, name) {
				waiting = append(waiting, name)
			}
			return true
		})
	}
	return declared, waiting
}

// placesIn are the functions that a table names, by their files.
func placesIn(t *testing.T, file string) map[string][]string {
	t.Helper()
	named := map[string][]string{}
	for _, line := range tableLines(t, file) {
		for _, found := range codePlace.FindAllStringSubmatch(line, -1) {
			named[found[1]] = append(named[found[1]], strings.Split(found[2], ", ")...)
		}
	}
	return named
}

func TestTablesOfPackagesNameFunctionsThatThereAre(t *testing.T) {
	for _, table := range []string{upgradesTable, growthTable} {
		count := 0
		for file, names := range placesIn(t, table) {
			declared, _ := functions(t, filepath.Join("../../controlplane", file))
			for _, name := range names {
				if count++; !slices.Contains(declared, name) {
					t.Errorf("%s names %s of %s, which declares no such function", table, name, file)
				}
			}
		}
		if count < 15 {
			t.Errorf("%s names only %d functions", table, count)
		}
	}
}

// Who looks for what an upgrade waits for begins with this table.
func TestTheTableOfUpgradesHasEveryFunctionThatWaits(t *testing.T) {
	var files []string
	for _, folder := range []string{"controllers", "adoption", "etcdmembers", "history"} {
		more, err := filepath.Glob(filepath.Join("../../controlplane", folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	named, found := placesIn(t, upgradesTable), 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		_, waiting := functions(t, file)
		for _, function := range waiting {
			place := filepath.Join(filepath.Base(filepath.Dir(file)), filepath.Base(file))
			if found++; !slices.Contains(named[place], function) {
				t.Errorf("%s waits, and the table in %s has no %s: %s", file, upgradesTable, place, function)
			}
		}
	}
	if found < 12 {
		t.Errorf("only %d functions wait", found)
	}
}

func TestTheTableOfGrowthIsInOrderAndNamesEventsThatThereAre(t *testing.T) {
	reasons, next := eventReasons(t), 1
	for _, line := range tableLines(t, growthTable) {
		if found := growthStep.FindStringSubmatch(line); found != nil {
			if found[1] != strconv.Itoa(next) {
				t.Errorf("%s: %q is where step %d has to be", growthTable, line, next)
			}
			next++
		}
		for _, event := range toldEvent.FindAllStringSubmatch(line, -1) {
			if !slices.Contains(reasons, event[1]) {
				t.Errorf("%s: no Event has the reason %s", growthTable, event[1])
			}
		}
	}
	if next < 10 {
		t.Errorf("%s has only %d steps", growthTable, next-1)
	}
}

// A reader who has a question opens a few files.
func TestTheIndexOfQuestionsNamesAFewFilesThatThereAre(t *testing.T) {
	page, err := markdown.Read("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := page.Rows("question", "where the answer is")
	if len(rows) != 6 {
		t.Errorf("there are %d questions", len(rows))
	}
	for _, row := range rows {
		files := markdown.Code(row["where the answer is"])
		if len(files) == 0 || len(files) > 6 {
			t.Errorf("%q is answered in %d files", row["question"], len(files))
		}
		for _, file := range files {
			if info, err := os.Stat(filepath.Join("../..", file)); err != nil || info.IsDir() {
				t.Errorf("%q names %s, which is no file: %v", row["question"], file, err)
			}
		}
	}
}
