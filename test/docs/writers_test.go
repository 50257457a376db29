package docs

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/markdown"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/docs/objects"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/docs/writers"
)

const architecture = "docs/architecture.md"

// writerRow is a row of the table of every writer.
type writerRow struct {
	// text is the beginning of the row, for messages.
	text                            string
	managers                        []string
	where                           []place
	kinds, clusters, verbs, manager []string
}

// place is a folder and functions in it; all of the folder, when it names none.
type place struct {
	folder    string
	functions []string
}

// clustersWritten are the words of column "cluster".
var clustersWritten = []string{"management", "host", "another host", "tenant", "etcd", "host machine, by SSH"}

// writerRows reads the table. Forms that are wrong are errors of the test.
func writerRows(t *testing.T) []writerRow {
	t.Helper()
	page, err := markdown.Read(architecture)
	if err != nil {
		t.Fatal(err)
	}
	var rows []writerRow
	for _, cells := range page.Rows("manager", "where", "writes", "cluster", "verb", "how", "what wakes it") {
		row := writerRow{
			text: fmt.Sprintf("%s: the row %s | %s |", architecture, cells["where"], cells["writes"]), kinds: markdown.Code(cells["writes"]),
			clusters: []string{cells["cluster"]}, verbs: strings.Split(cells["verb"], ", "), manager: markdown.Code(cells["how"]),
		}
		if !slices.Contains(clustersWritten, cells["cluster"]) {
			row.clusters = strings.Split(cells["cluster"], ", ")
		}
		switch name := strings.ReplaceAll(cells["manager"], " ", ""); {
		case cells["manager"] == "all three":
			row.managers = writers.Managers
		case slices.Contains(writers.Managers, name):
			row.managers = []string{name}
		default:
			t.Errorf("%s has %q in column manager", row.text, cells["manager"])
		}
		for part := range strings.SplitSeq(cells["where"], ";") {
			if named := markdown.Code(part); len(named) > 0 {
				row.where = append(row.where, place{folder: named[0], functions: named[1:]})
			}
		}
		for _, cluster := range row.clusters {
			if !slices.Contains(clustersWritten, cluster) {
				t.Errorf("%s has %q in column cluster, which is one of %v", row.text, cluster, clustersWritten)
			}
		}
		if !strings.HasPrefix(cells["how"], "at once") && !strings.HasPrefix(cells["how"], "by revision") {
			t.Errorf("%s has %q in column how, which begins with \"at once\" or \"by revision\"", row.text, cells["how"])
		}
		if len(row.where) == 0 || len(row.kinds) == 0 || cells["what wakes it"] == "" {
			t.Errorf("%s lacks a folder, a kind or what wakes it", row.text)
		}
		rows = append(rows, row)
	}
	if len(rows) < 20 {
		t.Fatalf("%s has a table of only %d writers", architecture, len(rows))
	}
	return rows
}

// names reports whether the row is of a function.
func (r *writerRow) names(folder, function string) bool {
	return slices.ContainsFunc(r.where, func(p place) bool {
		return p.folder == folder && (len(p.functions) == 0 || slices.Contains(p.functions, function))
	})
}

// tells reports whether the row tells of a write.
func (r *writerRow) tells(write *writers.Write) bool {
	return r.names(write.Package, write.Function) && hasAll(r.verbs, write.Verbs) && hasAll(r.kinds, write.Kinds) &&
		strings.Join(r.manager, "") == write.FieldManager
}

func hasAll(set, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(one string) bool { return !slices.Contains(set, one) })
}

func TestEveryWriterHasItsRow(t *testing.T) {
	source, err := writers.Read("../..")
	if err != nil {
		t.Fatal(err)
	}
	rows := writerRows(t)
	if len(source.Writes) < len(rows) {
		t.Fatalf("only %d writes were found in the source", len(source.Writes))
	}
	t.Run("each write of the source has a row", func(t *testing.T) {
		for i := range source.Writes {
			write := &source.Writes[i]
			if !slices.ContainsFunc(rows, func(row writerRow) bool { return row.tells(write) }) {
				t.Errorf("%s/%s: %s writes: %v %v, field manager %q: no row of \"Every writer\" in %s tells of it: `%s`: `%s`",
					write.Package, write.Place, write.Function, write.Verbs, write.Kinds, write.FieldManager, architecture, write.Package, write.Function)
			}
			if !slices.ContainsFunc(writers.Managers, func(manager string) bool { return slices.Contains(source.Packages[manager], write.Package) }) {
				t.Errorf("%s/%s: %s writes, and no manager is built of it: programs on workers write nothing", write.Package, write.Place, write.Function)
			}
		}
	})
	t.Run("each row has only what the source writes", func(t *testing.T) {
		for i := range rows {
			rows[i].check(t, source)
		}
	})
	t.Run("the page names each field manager", func(t *testing.T) {
		text, err := os.ReadFile("../../" + architecture)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range source.Names {
			if !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("%s does not name %s, which is the field manager where a write names none", architecture, name)
			}
		}
	})
}

// check holds a row to what its functions write.
func (r *writerRow) check(t *testing.T, source *writers.Source) {
	t.Helper()
	var verbs, kinds []string
	anyKind := false
	for _, place := range r.where {
		for _, manager := range r.managers {
			if !slices.Contains(source.Packages[manager], place.folder) {
				t.Errorf("%s: the manager %s is not built of %s", r.text, manager, place.folder)
			}
		}
		for _, function := range place.functions {
			if !source.Functions[place.folder+":"+function] {
				t.Errorf("%s: %s has no function %s", r.text, place.folder, function)
			}
		}
		wrote := map[string]bool{}
		for _, write := range source.Writes {
			if write.Package != place.folder || !r.names(write.Package, write.Function) {
				continue
			}
			wrote[write.Function] = true
			verbs, kinds = append(verbs, write.Verbs...), append(kinds, write.Kinds...)
			anyKind = anyKind || len(write.Kinds) == 0
		}
		for _, function := range place.functions {
			if source.Functions[place.folder+":"+function] && !wrote[function] {
				t.Errorf("%s: %s of %s writes nothing", r.text, function, place.folder)
			}
		}
	}
	if !hasAll(verbs, r.verbs) {
		t.Errorf("%s has the verbs %v, and its functions have %v", r.text, r.verbs, verbs)
	}
	if !anyKind && !hasAll(kinds, r.kinds) {
		t.Errorf("%s has the kinds %v, and its functions write %v", r.text, r.kinds, kinds)
	}
}

// permission is a verb on a resource, with /subresource where it has one.
type permission struct{ resource, verb string }

// permissions are what a manager may write: what controller-gen makes of the RBAC markers, and its leader election.
func permissions(t *testing.T, manager string) []permission {
	t.Helper()
	var all []permission
	for _, file := range []string{"role.yaml", "leader_election_role.yaml"} {
		raw, err := os.ReadFile("../../config/" + manager + "/rbac/" + file)
		if err != nil {
			t.Fatal(err)
		}
		role := rbacv1.ClusterRole{} // A Role has the same rules.
		if err := yaml.Unmarshal(raw, &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					if !slices.Contains([]string{"get", "list", "watch"}, verb) {
						all = append(all, permission{resource, verb})
					}
				}
			}
		}
	}
	return all
}

// needs are the permissions that a row's writes to the management and the host cluster take.
func (r *writerRow) needs() []permission {
	var all []permission
	if !slices.Contains(r.clusters, "management") && !slices.Contains(r.clusters, "host") {
		return nil
	}
	for _, kind := range r.kinds {
		name, subresource, _ := strings.Cut(kind, "/")
		plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: name})
		resource := plural.Resource
		if subresource != "" {
			resource += "/" + subresource
		}
		for _, verb := range r.verbs {
			if verb == "apply" { // It creates what is not there.
				all = append(all, permission{resource, "create"})
				verb = "patch"
			}
			all = append(all, permission{resource, verb})
		}
	}
	return all
}

func TestWhatManagersMayWriteHasARowOfAWriter(t *testing.T) {
	rows := writerRows(t)
	for _, manager := range writers.Managers {
		allowed := permissions(t, manager)
		var needed []permission
		for i := range rows {
			if !slices.Contains(rows[i].managers, manager) {
				continue
			}
			for _, need := range rows[i].needs() {
				needed = append(needed, need)
				if !slices.Contains(allowed, need) {
					t.Errorf("%s: no marker +kubebuilder:rbac of %s allows %s %s", rows[i].text, manager, need.verb, need.resource)
				}
			}
		}
		for _, one := range allowed {
			// Nothing is written there: the API server asks for it where an owner reference holds up a deletion.
			if !strings.HasSuffix(one.resource, "/finalizers") && !slices.Contains(needed, one) {
				t.Errorf("a marker +kubebuilder:rbac of %s allows %s %s, and no row of %s writes it", manager, one.verb, one.resource, architecture)
			}
		}
	}
}

// Types do not tell which kinds are applied. The reference of objects does, and other tests hold it to renderings.
func TestRowsOfWritersHaveTheKindsThatAreApplied(t *testing.T) {
	host, tenant := documented(t)
	host = slices.DeleteFunc(host, func(row objects.Row) bool { return !row.Patched })
	for cluster, of := range map[string][]objects.Row{"host": host, "tenant": tenant} {
		wanted, applied := map[string]bool{}, map[string]bool{}
		for _, row := range of {
			wanted[row.Kind] = true
		}
		for _, row := range writerRows(t) {
			for _, kind := range row.kinds {
				if slices.Contains(row.verbs, "apply") && slices.Contains(row.clusters, cluster) {
					applied[kind] = true
				}
			}
		}
		if diff := cmp.Diff(wanted, applied); diff != "" {
			t.Errorf("what %s has (-) and what rows with verb apply and cluster %s of %s have (+) differ:\n%s", objects.Path, cluster, architecture, diff)
		}
	}
}
