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

// Documented are all objects of the document, those of the host cluster apart from those in tenants.
func Documented() (host, tenant []Row, err error) {
	page, err := markdown.Read(Path)
	if err != nil {
		return nil, nil, err
	}
	for _, table := range page.Tables {
		for _, row := range table.Rows {
			if table.Under == "In the tenant" {
				tenant = append(tenant, rows(row)...)
			} else {
				host = append(host, rows(row)...)
			}
		}
	}
	return host, tenant, nil
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
