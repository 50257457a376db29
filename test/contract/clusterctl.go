package contract

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/repository"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	"sigs.k8s.io/yaml"
)

// SupportsClusterctl is the rule "Clusterctl support", of a provider whose components are built from a folder of the
// repository at root: clusterctl's own code reads them, for a person who sets no variable, and installs them in a namespace.
func SupportsClusterctl(t *testing.T, root, folder, name string, kind clusterctlv1.ProviderType) {
	raw, err := build(t, filepath.Join(root, folder)).AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "clusterctl.yaml")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	settings, err := config.New(t.Context(), empty)
	if err != nil {
		t.Fatal(err)
	}
	provider := config.NewProvider(name, "", kind)
	components, err := repository.NewComponents(repository.ComponentsInput{
		Provider: provider, ConfigClient: settings, Processor: yamlprocessor.NewSimpleProcessor(), RawYaml: raw,
		Options: repository.ComponentsOptions{TargetNamespace: "elsewhere"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var managers int
	for _, object := range components.Objs() {
		if namespace := object.GetNamespace(); namespace != "" && namespace != "elsewhere" {
			t.Errorf("%s %s stays in namespace %s", object.GetKind(), object.GetName(), namespace)
		}
		if object.GetKind() == "Deployment" {
			managers += managersOf(t, object)
		}
	}
	if managers != 1 {
		t.Errorf("%d containers are named manager", managers)
	}
	for _, resource := range build(t, filepath.Join(root, folder)).Resources() {
		if got := resource.GetLabels()[clusterv1.ProviderNameLabel]; got != provider.ManifestLabel() {
			t.Errorf("%s %s is labelled as a part of %q", resource.GetKind(), resource.GetName(), got)
		}
	}
	metadataSaysTheContract(t, filepath.Join(root, "metadata.yaml"))
}

func managersOf(t *testing.T, object unstructured.Unstructured) int {
	t.Helper()
	deployment := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, deployment); err != nil {
		t.Fatal(err)
	}
	containers := deployment.Spec.Template.Spec.Containers
	return len(slices.DeleteFunc(containers, func(c corev1.Container) bool { return c.Name != "manager" }))
}

func metadataSaysTheContract(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	metadata := &clusterctlv1.Metadata{}
	if err := yaml.UnmarshalStrict(text, metadata); err != nil {
		t.Fatal(err)
	}
	if metadata.GroupVersionKind() != clusterctlv1.GroupVersion.WithKind("Metadata") ||
		metadata.GetReleaseSeriesForContract(clusterv1.GroupVersion.Version) == nil {
		t.Errorf("no series of %s follows contract %s: %+v", metadata.GroupVersionKind(), clusterv1.GroupVersion.Version, metadata.ReleaseSeries)
	}
}
