package main

import (
	"bytes"
	"go/ast"
	"go/constant"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status/statustest"
	"github.com/kube-on-kube/cluster-api-provider-kok/hack/markdown"
)

const root = "../.."

func TestTheReferenceIsMadeOfTheComments(t *testing.T) {
	page, err := reference(root)
	if err != nil {
		t.Fatal(err)
	}
	present, err := os.ReadFile(filepath.Join(root, out))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(page, present) {
		t.Errorf("make generate writes another %s:\n%s", out, cmp.Diff(string(present), string(page)))
	}
}

// controllersOf are the packages that set the conditions of an API.
var controllersOf = map[string][]string{
	"api/controlplane/v1alpha1/conditions": {"controlplane/adoption", "controlplane/backups", "controlplane/controllers", "controlplane/history", "controlplane/hostclusters", "controlplane/keyrotation", "controlplane/ports", "controlplane/status"},
	"api/bootstrap/v1alpha1":               {"bootstrap/controllers"},
	"api/infrastructure/v1alpha1":          {"infrastructure/claims", "infrastructure/controllers"},
}

func TestControllersSetWhatIsDocumentedAndNothingElse(t *testing.T) {
	for _, api := range apis {
		t.Run(api, func(t *testing.T) {
			documented := map[string]bool{"Condition Paused": true}
			kinds, err := read(root, api)
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range kinds {
				for _, c := range k.conditions {
					documented["Condition "+c.value] = true
					for _, r := range c.reasons {
						documented["Reason "+r.value] = true
					}
				}
			}
			if diff := cmp.Diff(slices.Sorted(maps.Keys(documented)), slices.Sorted(maps.Keys(used(t, controllersOf[api]...)))); diff != "" {
				t.Errorf("documented (-) and used (+) differ:\n%s", diff)
			}
		})
	}
}

// The tests of status see what is owned or set. A condition that is neither is found here.
func TestTheControllerOwnsEveryConditionOfAControlPlane(t *testing.T) {
	kinds, err := read(root, apis[0])
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, k := range kinds {
		if !slices.Contains(k.names, "KOKControlPlane") {
			continue
		}
		for _, c := range k.conditions {
			documented[c.value] = true
		}
	}
	owned := map[string]bool{}
	for _, name := range status.Owned {
		owned[name] = name != clusterv1.PausedCondition || documented[name]
	}
	maps.DeleteFunc(owned, func(_ string, is bool) bool { return !is })
	if diff := cmp.Diff(slices.Sorted(maps.Keys(documented)), slices.Sorted(maps.Keys(owned))); diff != "" {
		t.Errorf("documented (-) and owned (+) differ: add it to setConditions and Owned of controlplane/status\n%s", diff)
	}
}

// While its host cluster is away a control plane has one reason at several conditions: each has a row of the reference.
func TestTheReferenceHasTheReasonsOfEveryConditionWithoutAHostCluster(t *testing.T) {
	kinds, err := read(root, apis[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, away := range []string{
		conditionsv1.HostClusterConnectingReason, conditionsv1.HostClusterUnreachableReason, conditionsv1.InvalidHostKubeconfigReason,
	} {
		documented, set := map[string]bool{}, map[string]bool{}
		for _, k := range kinds {
			if !slices.Contains(k.names, "KOKControlPlane") {
				continue
			}
			for _, c := range k.conditions {
				if slices.ContainsFunc(c.reasons, func(r reason) bool { return r.value == away }) {
					documented[c.value] = true
				}
			}
		}
		controlPlane := &controlplanev1.KOKControlPlane{}
		statustest.WithEveryCondition(&controlPlane.Spec)
		status.WithoutHost(controlPlane, away, "no answer")
		for _, c := range controlPlane.Status.Conditions {
			set[c.Type] = true
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(documented)), slices.Sorted(maps.Keys(set))); diff != "" {
			t.Errorf("the comment of %s names (-), and status.WithoutHost sets (+):\n%s", away, diff)
		}
	}
}

// used are the conditions and reasons that packages name by constants of an API.
func used(t *testing.T, folders ...string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, folder := range folders {
		loaded, err := load(root, folder)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(all, usedIn(loaded[0].TypesInfo.Uses))
	}
	return all
}

func usedIn(uses map[*ast.Ident]types.Object) map[string]bool {
	all := map[string]bool{}
	for _, object := range uses {
		named, ok := object.(*types.Const)
		if !ok || named.Pkg() == nil || !isAPI(named.Pkg().Path()) || named.Val().Kind() != constant.String {
			continue
		}
		for _, what := range []string{"Condition", "Reason"} {
			if strings.HasSuffix(named.Name(), what) {
				all[what+" "+constant.StringVal(named.Val())] = true
			}
		}
	}
	return all
}

func isAPI(path string) bool {
	return path == "sigs.k8s.io/cluster-api/api/core/v1beta2" ||
		slices.ContainsFunc(apis, func(api string) bool { return strings.HasSuffix(path, "/"+api) })
}

func TestCommentsThatMakeNoReferenceAreRefused(t *testing.T) {
	const conditions = `
// Conditions of an IDCThing.
const (
	// GoodCondition is true.
	GoodCondition = "Good"
)
`
	for name, test := range map[string]struct{ source, says string }{
		"no group says that it has conditions": {`const A = "a"`, "no group of constants"},
		"a condition begins otherwise": {`
// Conditions of an IDCThing.
const (
	// It is good.
	GoodCondition = "Good"
)`, "GoodCondition must be one paragraph"},
		"a condition has no comment": {`
// Conditions of an IDCThing.
const (
	GoodCondition = "Good"
)`, "comment of its own"},
		"a reason names no condition": {conditions + `
// Reasons of the conditions of an IDCThing.
const (
	// FineReason: it is fine.
	FineReason = "Fine"
)`, "FineReason of ACondition"},
		"a reason is of an unknown condition": {conditions + `
// Reasons of the conditions of an IDCThing.
const (
	// FineReason of BadCondition: it is fine.
	FineReason = "Fine"
)`, "have no BadCondition"},
		"reasons are of another kind": {conditions + `
// Reasons of the conditions of an IDCOther.
const (
	// FineReason of GoodCondition: it is fine.
	FineReason = "Fine"
)`, "[IDCOther] have no conditions"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := readSource(t, test.source); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("err = %v", err)
			}
		})
	}
}

func TestAReasonIsAtEachOfItsConditions(t *testing.T) {
	kinds, err := readSource(t, `
// Conditions of an IDCThing and an IDCOther, besides clusterv1.PausedCondition. They are few.
const (
	// GoodCondition is true while BadCondition is false.
	GoodCondition = "Good"
	// BadCondition is seldom.
	BadCondition = "Bad"
)

// Reasons of the conditions of an IDCThing, and an IDCOther.
const (
	// FineReason of GoodCondition and BadCondition: "x<y" in spec.field.
	//
	// See docs/more.md#there.
	FineReason = "Fine"
)`)
	if err != nil {
		t.Fatal(err)
	}
	page := string(render(kinds, markdown.Parse("# Title\n\n## Much of Good, and `more`\n")))
	want := "## IDCThing, IDCOther\n\nThey are few.\n\n### IDCThing: Good\n\nIt is true while `Bad` is false.\n" +
		"More: [troubleshooting](../troubleshooting.md#much-of-good-and-more).\n\n" +
		"| reason | what it means | what to do |\n|---|---|---|\n| `Fine` | `x<y` in `spec.field` | See [more.md](../more.md#there) |\n\n" +
		"### IDCThing: Bad\n\nIt is seldom.\n\n" +
		"| reason | what it means | what to do |\n|---|---|---|\n| `Fine` | `x<y` in `spec.field` | See [more.md](../more.md#there) |\n"
	if !strings.HasSuffix(page, want) {
		t.Errorf("got\n%s\nwant at the end\n%s", page, want)
	}
}

// readSource reads a package of one file.
func readSource(t *testing.T, source string) ([]kind, error) {
	t.Helper()
	folder := t.TempDir()
	for name, content := range map[string]string{"go.mod": "module example.com\n\ngo 1.26\n", "api.go": "package api\n" + source + "\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return read(folder, ".")
}
