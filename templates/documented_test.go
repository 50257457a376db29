package templates

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/markdown"
)

const page = "docs/templates.md"

// rows are those of the tables under a heading of the page, without marks of code.
func rows(t *testing.T, under string) []map[string]string {
	t.Helper()
	document, err := markdown.Read(page)
	if err != nil {
		t.Fatal(err)
	}
	var found []map[string]string
	for _, table := range document.Tables {
		if table.Under != under {
			continue
		}
		for _, row := range table.Rows {
			plain := map[string]string{}
			for column, cell := range row {
				plain[column] = strings.ReplaceAll(strings.TrimSpace(cell), "`", "")
			}
			found = append(found, plain)
		}
	}
	if len(found) == 0 {
		t.Fatalf("%s has no table under %q", page, under)
	}
	return found
}

func TestThePageListsEveryFlavour(t *testing.T) {
	files, err := filepath.Glob("cluster-template*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, file := range files {
		want[flavour(file)] = file
	}
	got := map[string]string{}
	for _, row := range rows(t, "Flavours") {
		name, _, _ := strings.Cut(strings.TrimPrefix(row["file"], "["), "]")
		got[row["flavour"]] = name
	}
	if !maps.Equal(got, want) {
		t.Errorf("it has %v, there are %v", got, want)
	}
}

// flavoursWith is how the page says in which flavours a variable is.
func flavoursWith(name string, all map[string]map[string]string) string {
	var with, lacking []string
	for _, flavour := range slices.Sorted(maps.Keys(all)) {
		if _, ok := all[flavour][name]; ok {
			with = append(with, flavour)
		} else {
			lacking = append(lacking, flavour)
		}
	}
	switch {
	case len(lacking) == 0:
		return "all"
	case len(with) > len(lacking):
		return "all but " + strings.Join(lacking, ", ")
	default:
		return strings.Join(with, ", ")
	}
}

// defaultInTemplates is the one that a variable has in each flavour which knows it.
func defaultInTemplates(t *testing.T, name string, all map[string]map[string]string) string {
	t.Helper()
	found := map[string]bool{}
	for _, variables := range all {
		if value, ok := variables[name]; ok {
			found[value] = true
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s has the defaults %v", name, found)
	}
	return slices.Collect(maps.Keys(found))[0]
}

// variableRow is what the page has to say of a variable, but for what it sets.
type variableRow struct{ template, other, value, flavours string }

func TestThePageListsEveryVariableWithItsDefault(t *testing.T) {
	all := defaults(t)
	known := map[string]bool{}
	for _, variables := range all {
		for name := range variables {
			known[name] = true
		}
	}
	want := map[string][]variableRow{}
	const ofClusters, ofClasses = "Variables of a Cluster", "Variables of templates and classes"
	for name, field := range ofTheCluster {
		want[ofClusters] = append(want[ofClusters], variableRow{name, field, defaultInTemplates(t, name, all), flavoursWith(name, all)})
		delete(known, name)
	}
	for name, value := range defaultsOfTheClass(t) {
		row := variableRow{other: name, value: value}
		if known[inTemplates(name)] {
			row.template, row.flavours = inTemplates(name), flavoursWith(inTemplates(name), all)
			if other := defaultInTemplates(t, row.template, all); other != value {
				row.value = fmt.Sprintf("%s, of the class %s", other, value)
			}
			delete(known, row.template)
		}
		want[ofClasses] = append(want[ofClasses], row)
	}
	if len(known) > 0 {
		t.Errorf("%v are neither fields of a Cluster nor variables of the class", known)
	}
	for under, column := range map[string]string{ofClusters: "with a topology", ofClasses: "class"} {
		var got []variableRow
		for _, row := range rows(t, under) {
			// What none means may be said behind it.
			value := row["default"]
			if before, _, ok := strings.Cut(value, none+": "); ok {
				value = before + none
			}
			if row["what it sets"] == "" {
				t.Errorf("%v is not explained", row)
			}
			got = append(got, variableRow{row["template"], row[column], value, row["flavours"]})
		}
		for _, row := range want[under] {
			if !slices.Contains(got, row) {
				t.Errorf("under %q there is no row %+v", under, row)
			}
		}
		if len(got) != len(want[under]) {
			t.Errorf("under %q there are %d rows of %d variables", under, len(got), len(want[under]))
		}
	}
}
