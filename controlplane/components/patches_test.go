package components_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/golden"
)

// patched are the inputs of control planes with patches: in one or the other there is something of every kind of every component.
var patched = map[string]func(*testing.T) *components.Input{
	"patched": func(t *testing.T) *components.Input {
		in := variants["default"]()
		in.Spec.KubeAPIServer.Audit = &controlplanev1.AuditSpec{MaxSizeMB: 100, MaxBackups: 5}
		in.Spec.Patches = readPatches(t, "patches.yaml")
		return in
	},
	"patched-pod-network": func(t *testing.T) *components.Input {
		in := variants["load-balancer"]()
		in.Spec.KubeAPIServer.Audit = &controlplanev1.AuditSpec{MaxSizeMB: 100, MaxBackups: 5}
		in.Spec.Patches = readPatches(t, "patches-pod-network.yaml")
		return in
	},
}

func readPatches(t *testing.T, file string) []controlplanev1.Patch {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var list []controlplanev1.Patch
	if err := yaml.UnmarshalStrict(raw, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

func patchFor(component, kind, text string) controlplanev1.Patch {
	return controlplanev1.Patch{
		Target: controlplanev1.PatchTarget{Component: component, Kind: kind},
		Type:   controlplanev1.PatchStrategicMerge, Patch: text,
	}
}

// annotate is a patch that leaves pods alone.
func annotate(component, kind string) controlplanev1.Patch {
	return patchFor(component, kind, `{"metadata": {"annotations": {"example/a": "b"}}}`)
}

// withPatches is everything of one component that patches reach, as the controller renders it.
func withPatches(t *testing.T, component components.Component, in *components.Input) []client.Object {
	t.Helper()
	var objects []client.Object
	if component.Services != nil {
		services, err := component.Services(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, service := range services {
			objects = append(objects, service)
		}
	}
	for _, cluster := range etcd.All {
		if cluster.Component == component.Name {
			config, err := cluster.Config(in, etcd.Membership{})
			if err != nil {
				t.Fatal(err)
			}
			objects = append(objects, config)
		}
	}
	objects, err := component.Patched(in, objects)
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := component.Rendered(in)
	if err != nil {
		t.Fatal(err)
	}
	return append(objects, rendered...)
}

func TestPatchedRenderings(t *testing.T) {
	for variant, input := range patched {
		for _, component := range registry.Components {
			t.Run(component.Name+"/"+variant, func(t *testing.T) {
				golden.Compare(t, filepath.Join(component.Name, variant+".yaml"), documents(t, withPatches(t, component, input(t))...))
			})
		}
	}
}

// Whatever is rendered in any mode can be patched, and a golden file shows how a patch changed one of its kind.
func TestGoldenFilesShowAPatchOfEveryKindOfEveryComponent(t *testing.T) {
	for _, component := range registry.Components {
		rendered, shown := map[string]bool{}, map[string]bool{}
		for _, input := range variants {
			for _, object := range withPatches(t, component, input()) {
				rendered[object.GetObjectKind().GroupVersionKind().Kind] = true
			}
		}
		for _, input := range patched {
			in := input(t)
			changed := withPatches(t, component, in)
			in.Spec.Patches = nil
			for i, object := range withPatches(t, component, in) {
				if !bytes.Equal(documents(t, object), documents(t, changed[i])) {
					shown[object.GetObjectKind().GroupVersionKind().Kind] = true
				}
			}
		}
		if diff := cmp.Diff(rendered, shown); diff != "" {
			t.Errorf("what is rendered of %s (-) and what golden files show a patch of (+) differ:\n%s", component.Name, diff)
		}
	}
}

// A patch reaches the objects that it is for, and nothing else.
func TestAPatchChangesObjectsOfItsTargetOnly(t *testing.T) {
	for _, component := range registry.Components {
		plain := map[string][]byte{}
		for _, object := range withPatches(t, component, variants["default"]()) {
			plain[object.GetObjectKind().GroupVersionKind().Kind+object.GetName()] = documents(t, object)
		}
		for _, target := range []controlplanev1.PatchTarget{
			{Component: "etcd-data", Kind: "StatefulSet"}, {Component: "etcd-data", Kind: "Service"}, {Component: "etcd-data", Kind: "ConfigMap"},
			{Component: "etcd-events", Kind: "PodDisruptionBudget"}, {Component: "kube-apiserver", Kind: "DaemonSet"},
			{Component: "kube-controller-manager", Kind: "Deployment"}, {Component: "kube-scheduler", Kind: "Deployment"},
		} {
			in := variants["default"]()
			in.Spec.Patches = []controlplanev1.Patch{annotate(target.Component, target.Kind)}
			for _, object := range withPatches(t, component, in) {
				kind := object.GetObjectKind().GroupVersionKind().Kind
				want := component.Name == target.Component && kind == target.Kind
				if changed := !bytes.Equal(plain[kind+object.GetName()], documents(t, object)); changed != want {
					t.Errorf("that a patch for %s of %s changed %s %s is %t", target.Kind, target.Component, kind, object.GetName(), changed)
				}
			}
		}
	}
}

// Patches of others, and their order among them, are none of a component's business.
func TestPatchesOfOthersAreNoInputs(t *testing.T) {
	for _, component := range registry.Components {
		in := variants["default"]()
		without := hash(t, component, in)
		for _, other := range registry.Components {
			if other.Name != component.Name {
				in.Spec.Patches = append(in.Spec.Patches, annotate(other.Name, "Service"))
			}
		}
		in.Spec.Patches = append(in.Spec.Patches, annotate("coredns", "Deployment"))
		if hash(t, component, in) != without {
			t.Errorf("%s would adopt a new rendering for the patches of others", component.Name)
		}
		own := annotate(component.Name, "ConfigMap")
		in.Spec.Patches = append(in.Spec.Patches, own)
		last := hash(t, component, in)
		if last == without {
			t.Errorf("%s would not adopt a new rendering for its own patch", component.Name)
		}
		slices.Reverse(in.Spec.Patches)
		if hash(t, component, in) != last {
			t.Errorf("%s would adopt a new rendering for the order of others' patches", component.Name)
		}
	}
}
