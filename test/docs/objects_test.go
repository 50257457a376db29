package docs

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/addon"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rendering"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/docs/objects"
)

// golden are the objects in the golden files that match, by the name of the file up to its first dot: one for
// each mode.
func golden(t *testing.T, pattern string) map[string][]*unstructured.Unstructured {
	t.Helper()
	files, err := filepath.Glob("../../controlplane/" + pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v", pattern, err)
	}
	found := map[string][]*unstructured.Unstructured{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		mode, _, _ := strings.Cut(filepath.Base(file), ".")
		for document := range strings.SplitSeq(strings.TrimPrefix(string(text), "---\n"), "\n---\n") {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil || object.GetKind() == "" {
				t.Fatalf("%s: %v in\n%s", file, err, document)
			}
			found[mode] = append(found[mode], object)
		}
	}
	return found
}

func documented(t *testing.T) (host, tenant []objects.Row) {
	t.Helper()
	host, tenant, err := objects.Documented()
	if err != nil {
		t.Fatal(err)
	}
	return host, tenant
}

func compare(t *testing.T, documented, rendered map[objects.Object]string) {
	t.Helper()
	if diff := cmp.Diff(documented, rendered); diff != "" {
		t.Errorf("what %s says (-) and what is rendered (+) differ:\n%s", objects.Path, diff)
	}
}

// What is rendered in every mode is always there; an object that is not has a row which says when it is.
func TestObjectsInTheHostClusterAreAsTheReferenceSays(t *testing.T) {
	rendered := map[objects.Object]string{}
	for _, component := range registry.Components {
		modes := golden(t, "components/testdata/"+component.Name+"/*.yaml")
		seen := map[objects.Object]map[string]bool{}
		for mode, all := range modes {
			for _, o := range all {
				object := objects.InHostCluster("blue", o.GetKind(), o.GetName(), o.GetLabels()[names.ComponentLabel])
				if seen[object] == nil {
					seen[object] = map[string]bool{}
				}
				seen[object][mode] = true
			}
		}
		for object, in := range seen {
			rendered[object] = whenOf(len(in) == len(modes))
		}
	}
	rows, _ := documented(t)
	said := map[objects.Object]string{}
	for _, row := range rows {
		if row.Patched {
			said[row.Object] = whenOf(row.When == "always")
		}
	}
	compare(t, said, rendered)
}

func whenOf(always bool) string {
	if always {
		return "always"
	}
	return "sometimes"
}

// contentHash is how a name ends that has the hash of what is in its object.
var contentHash = regexp.MustCompile(`-[0-9a-f]{16}$`)

func TestObjectsInTheTenantAreAsTheReferenceSays(t *testing.T) {
	rendered := map[objects.Object]string{}
	for folder, stays := range map[string]bool{"addons": true, "tenant": true, "nodekeys": false} {
		modes := golden(t, folder+"/testdata/*.yaml")
		count := map[objects.Object]int{}
		for _, all := range modes {
			for _, o := range all {
				name := contentHash.ReplaceAllString(strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/"), "-<hash>")
				count[objects.Object{Kind: o.GetKind(), Name: name, Component: o.GetLabels()[addon.NameLabel]}]++
			}
		}
		for object, times := range count {
			rendered[object] = whenOf(stays && times == len(modes))
		}
	}
	_, rows := documented(t)
	said := map[objects.Object]string{}
	for _, row := range rows {
		said[row.Object] = whenOf(row.When == "always" || row.When == "")
	}
	compare(t, said, rendered)
}

// A label can be added to every object that a patch may have as its target, and to no other.
func TestTargetsOfPatchesAreAsTheReferenceSays(t *testing.T) {
	host, tenant := documented(t)
	rows := slices.Concat(host, tenant)
	kinds, said := map[string]bool{}, map[controlplanev1.PatchTarget]bool{}
	for _, row := range rows {
		kinds[row.Kind] = true
		if row.Patched {
			said[controlplanev1.PatchTarget{Component: row.Component, Kind: row.Kind}] = true
		}
	}
	var components []string
	for _, component := range registry.Components {
		components = append(components, component.Name)
	}
	for _, a := range addons.All {
		components = append(components, a.Name)
	}
	accepted := map[controlplanev1.PatchTarget]bool{}
	for _, component := range components {
		for kind := range maps.Keys(kinds) {
			target := controlplanev1.PatchTarget{Component: component, Kind: kind}
			spec := controlplanev1.KOKControlPlaneSpec{Patches: []controlplanev1.Patch{{Target: target, Patch: "metadata: {labels: {example.com/documented: here}}"}}}
			if len(rendering.ValidatePatches(spec, versions.BuiltIn(), nil, field.NewPath("spec", "patches"))) == 0 {
				accepted[target] = true
			}
		}
	}
	if diff := cmp.Diff(said, accepted); diff != "" {
		t.Errorf("what %s says (-) and what is accepted (+) differ:\n%s", objects.Path, diff)
	}
}

// What managers create in tenants, where they may do everything, is not seen here.
func TestTheReferenceHasEveryKindThatManagersMayCreate(t *testing.T) {
	beside, err := objects.Beside()
	if err != nil {
		t.Fatal(err)
	}
	host, _ := documented(t)
	for _, row := range host {
		beside["control plane provider"] = append(beside["control plane provider"], row.Kind)
	}
	// A review is a question, and nothing of it is stored, nor of a token; a port is forwarded for as long as a connection lasts.
	passing := []string{"tokenreviews", "subjectaccessreviews", "pods/portforward", "serviceaccounts/token"}
	for provider, files := range map[string][]string{
		"control plane provider":  {"controlplane/rbac/role.yaml", "controlplane/rbac/leader_election_role.yaml", "host-cluster/tenants_role.yaml", "host-cluster/ports_role.yaml", "host-cluster/nodes_role.yaml"},
		"bootstrap provider":      {"bootstrap/rbac/role.yaml", "bootstrap/rbac/leader_election_role.yaml"},
		"infrastructure provider": {"infrastructure/rbac/role.yaml", "infrastructure/rbac/leader_election_role.yaml"},
	} {
		said := map[string]bool{}
		for _, kind := range slices.Concat(beside[provider], beside["all three"]) {
			plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: kind})
			said[plural.Resource] = true
		}
		created := 0
		for _, file := range files {
			for _, resource := range mayCreate(t, file) {
				if slices.Contains(passing, resource) {
					continue
				}
				if created++; !said[resource] {
					t.Errorf("%s lets the %s create %s, and %s has none that it makes", file, provider, resource, objects.Path)
				}
			}
		}
		if created < 2 {
			t.Errorf("only %d resources that the %s may create were found", created, provider)
		}
	}
}

// mayCreate are the resources that a role of config lets its subjects create.
func mayCreate(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../config", file))
	if err != nil {
		t.Fatal(err)
	}
	role := rbacv1.ClusterRole{}
	if err := yaml.Unmarshal(text, &role); err != nil {
		t.Fatal(err)
	}
	var resources []string
	for _, rule := range role.Rules {
		if slices.Contains(rule.Verbs, "create") || slices.Contains(rule.Verbs, rbacv1.VerbAll) {
			resources = append(resources, rule.Resources...)
		}
	}
	return resources
}
