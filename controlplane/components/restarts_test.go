package components_test

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/hack/markdown"
)

// unchangeable are changes that nobody can make of a control plane that runs.
var unchangeable = []string{
	"the cluster's name", "the cluster's namespace", "the address of a Service", "hosting.portPool", "hosting.ports", "encryptionAtRest.mode",
	"etcd.data.storage.storageClassName", "etcd.data.storage.type", "etcd.events.storage.storageClassName", "etcd.events.storage.type",
	"etcd.events.mode", "controlPlaneEndpoint", "hosting.kubeconfigRef", "hosting.networkMode", "hosting.exposure", "kubeAPIServer.workload",
}

// noInput are fields of spec that Reduce takes out, and that no rendering takes up. Replicas reach stored renderings.
var noInput = []string{
	"replicas", "kubeAPIServer.certSANs", "encryptionAtRest.resources", "addons.kubeProxy", "addons.coreDNS", "addons.konnectivity.agentImage",
	"metrics.mode", "keyRotation", "etcd.recovery", "etcd.givenUp", "etcd.events.foundAnewAt",
	"etcd.backup.every", "etcd.backup.maxAge", "etcd.backup.keep", "etcd.backup.recipients", "etcd.backup.store.s3",
}

// People plan a change by this table.
func TestTheTableOfRestartsIsTrue(t *testing.T) {
	documented := documentedRestarts(t)
	for _, change := range changes {
		if slices.Contains(unchangeable, change.name) || strings.HasPrefix(change.name, "a patch for ") {
			continue
		}
		before, after := withoutImages(), withoutImages()
		change.edit(after)
		want := restarts{adopt: change.concern}
		if strings.HasPrefix(change.name, "etcd.") && strings.HasSuffix(change.name, ".replicas") {
			// Another number of members is no new rendering of etcd: the controller renders it as it was bootstrapped.
			want.adopt = apiServer
		}
		if strings.HasSuffix(change.name, ".storage.size") {
			want.adopt = nil // Volumes grow beside the rendering, which keeps the size that it was made with.
		}
		for _, component := range registry.Components {
			if slices.Contains(want.adopt, component.Name) && !bytes.Equal(podsOf(t, component, before), podsOf(t, component, after)) {
				want.restart = append(want.restart, component.Name)
			}
		}
		want.compare(t, change.name, documented)
	}
	for _, field := range noInput {
		restarts{}.compare(t, field, documented)
	}
	restarts{adopt: everyone, restart: everyone}.compare(t, "rollout.after", documented)
	for field := range documented {
		t.Errorf("docs/reference/objects.md has a row of %s, which is in no list of this test", field)
	}
}

// elsewhere are fields of spec that the table has by other words, or that the notes below it are about.
var elsewhere = []string{"version", "patches", "rollout.renderings"}

// A field that is in no list of this file would be missing in the table without a word.
func TestTheTableOfRestartsIsAboutEveryField(t *testing.T) {
	known := slices.Concat(unchangeable, noInput, elsewhere, []string{"rollout.after"})
	for _, change := range changes {
		known = append(known, change.name)
	}
	for _, field := range fieldsOf(reflect.TypeFor[controlplanev1.KOKControlPlaneSpec](), "") {
		if !slices.ContainsFunc(known, func(name string) bool { return name == field || strings.HasPrefix(field, name+".") }) {
			t.Errorf("no list of this test has spec.%s: say in docs/reference/objects.md what restarts when it changes", field)
		}
	}
}

// fieldsOf are the fields of a struct of the API, and of structs in it, by their names in JSON.
func fieldsOf(of reflect.Type, below string) (all []string) {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || !strings.HasSuffix(of.PkgPath(), "/api/controlplane/v1alpha1") {
		return []string{strings.TrimSuffix(below, ".")}
	}
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" {
			name += "."
		}
		all = append(all, fieldsOf(field.Type, below+name)...)
	}
	return all
}

// restarts are the components that take a new rendering for a change, and those of them whose pods are replaced.
type restarts struct{ adopt, restart []string }

// compare looks up a field in the table, and takes it out of what is left to compare.
func (want restarts) compare(t *testing.T, field string, documented map[string]restarts) {
	t.Helper()
	got, ok := documented[field]
	if !ok {
		t.Errorf("docs/reference/objects.md does not say what restarts for %s: %v take a new rendering, %v restart", field, want.adopt, want.restart)
	} else if !slices.Equal(got.adopt, sorted(want.adopt)) || !slices.Equal(got.restart, sorted(want.restart)) {
		t.Errorf("docs/reference/objects.md says that for %s %v take a new rendering and %v restart, and it is %v and %v",
			field, got.adopt, got.restart, sorted(want.adopt), sorted(want.restart))
	}
	delete(documented, field)
}

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }

// documentedRestarts are the rows of the table, by what is changed.
func documentedRestarts(t *testing.T) map[string]restarts {
	t.Helper()
	page, err := markdown.Read("docs/reference/objects.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]restarts{}
	for _, row := range page.Rows("what is changed", "takes a new rendering", "restarts") {
		said := restarts{adopt: namesIn(row["takes a new rendering"]), restart: namesIn(row["restarts"])}
		changed := markdown.Code(row["what is changed"])
		if len(changed) == 0 {
			changed = []string{row["what is changed"]}
		}
		for _, field := range changed {
			documented[field] = said
		}
	}
	return documented
}

// namesIn are the components in a cell.
func namesIn(cell string) []string {
	if cell == "all" {
		return sorted(everyone)
	}
	return sorted(markdown.Code(cell))
}

// withoutImages is the input in which every other field of spec is set: another version or repository brings other images.
func withoutImages() *components.Input {
	in := variants["customised"]()
	in.Spec.KubeAPIServer.Image, in.Spec.KubeControllerManager.Image, in.Spec.KubeScheduler.Image = "", "", ""
	in.Spec.Etcd.Image, in.Spec.Addons.Konnectivity.ServerImage = "", ""
	return in
}

// podsOf is what a component's workload makes pods of.
func podsOf(t *testing.T, component components.Component, in *components.Input) []byte {
	t.Helper()
	rendered, err := component.Rendered(in)
	if err != nil {
		t.Fatal(err)
	}
	return documents(t, podIn(t, rendered))
}
