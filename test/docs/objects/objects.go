// Package objects reads docs/reference/objects.md for tests that compare it with what control planes make.
package objects

import (
	"regexp"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/markdown"
)

// Path is where the document is.
const Path = "docs/reference/objects.md"

// Object is one kind of object of one name. In names of objects in the host cluster <cluster> stands for the
// Cluster's and <n> for a number; those in a tenant have their namespace before them.
type Object struct {
	Kind, Name string
	// Component is the value of a label; empty if there is none.
	Component string
}

// Row is what the document says of an object.
type Row struct {
	Object
	// When is empty where the document does not say when it is there.
	When string
	// Patched is true for a target of spec.patches.
	Patched bool
}

// Documented are all objects that control planes are made of, those of the host cluster apart from those in tenants.
func Documented() (host, tenant []Row, err error) {
	under, err := tables()
	for _, row := range under["In the host cluster"] {
		host = append(host, rows(row)...)
	}
	for _, row := range under["In the tenant"] {
		tenant = append(tenant, rows(row)...)
	}
	return host, tenant, err
}

// Beside are the kinds of what the document has beside control planes, by the provider that makes them.
func Beside() (map[string][]string, error) {
	under, err := tables()
	kinds := map[string][]string{}
	for _, row := range under["Beside control planes"] {
		kinds[row["made by"]] = append(kinds[row["made by"]], row["kind"])
	}
	return kinds, err
}

// tables are the rows of all tables, by the heading that they are under.
func tables() (map[string][]map[string]string, error) {
	page, err := markdown.Read(Path)
	if err != nil {
		return nil, err
	}
	under := map[string][]map[string]string{}
	for _, table := range page.Tables {
		under[table.Under] = append(under[table.Under], table.Rows...)
	}
	return under, nil
}

// rows are the objects of one line of a table: one for each kind, name and component that it lists.
func rows(line map[string]string) []Row {
	components := markdown.Code(line["component"])
	if len(components) == 0 {
		components = []string{""}
	}
	var all []Row
	for _, component := range components {
		for kind := range strings.SplitSeq(line["kind"], ", ") {
			for _, name := range markdown.Code(line["name"]) {
				all = append(all, Row{
					Object:  Object{Kind: kind, Name: strings.ReplaceAll(name, "<component>", component), Component: component},
					When:    line["when"],
					Patched: strings.Contains(line["changed by"], "`spec.patches`"),
				})
			}
		}
	}
	return all
}

var number = regexp.MustCompile(`-\d+$`)

// InHostCluster is the object of a kind, name and component in the host cluster, as the document names it.
func InHostCluster(cluster, kind, name, component string) Object {
	name = strings.Replace(name, cluster+"-", "<cluster>-", 1)
	return Object{Kind: kind, Name: number.ReplaceAllString(name, "-<n>"), Component: component}
}
