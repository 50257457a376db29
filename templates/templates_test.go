// Package templates checks the templates of Clusters.
package templates

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	kubeadmv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

// needed are the variables without a default, as clusterctl sets them by its arguments.
var needed = map[string]string{
	"CLUSTER_NAME": "blue", "NAMESPACE": "team", "KUBERNETES_VERSION": "v1.36.3", "WORKER_MACHINE_COUNT": "2",
}

// fill fills a template in as clusterctl does, and returns its documents.
func fill(t *testing.T, file string) []string {
	t.Helper()
	template, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	filled, err := yamlprocessor.NewSimpleProcessor().Process(template, func(name string) (string, error) {
		value, ok := needed[name]
		if !ok {
			return "", fmt.Errorf("%s is not set", name)
		}
		return value, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(filled), "\n---\n")
}

// render fills a template in and decodes it; fields that no API knows are errors.
func render(t *testing.T, file string) []client.Object {
	t.Helper()
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clusterv1.AddToScheme, kubeadmv1.AddToScheme, bootstrapv1.AddToScheme, controlplanev1.AddToScheme, infrav1.AddToScheme,
	} {
		if err := add(types); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(types, serializer.EnableStrict).UniversalDeserializer()
	var objects []client.Object
	for _, document := range fill(t, file) {
		object, _, err := decoder.Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		objects = append(objects, object.(client.Object))
	}
	return objects
}

// one is the only object of a type.
func one[T client.Object](t *testing.T, objects []client.Object) T {
	t.Helper()
	var found []T
	for _, object := range objects {
		if typed, ok := object.(T); ok {
			found = append(found, typed)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d objects %T, want one", len(found), *new(T))
	}
	return found[0]
}

// reference names an object as references do, without a version of its API.
func reference(group, kind, name string) string { return group + " " + kind + " " + name }

// referenceTo names an object of a template.
func referenceTo(object client.Object) string {
	kind := object.GetObjectKind().GroupVersionKind()
	return reference(kind.Group, kind.Kind, object.GetName())
}

func TestReferencesOfTemplatesLeadToTheirObjects(t *testing.T) {
	files, err := filepath.Glob("cluster-template*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("templates %v, err %v", files, err)
	}
	classes := []string{referenceTo(one[*clusterv1.ClusterClass](t, render(t, class)))}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			present := slices.Clone(classes)
			var wanted []string
			for _, object := range render(t, file) {
				if object.GetNamespace() != "team" || !strings.HasPrefix(object.GetName(), "blue") {
					t.Errorf("%T is %s/%s", object, object.GetNamespace(), object.GetName())
				}
				present = append(present, referenceTo(object))
				wanted = append(wanted, references(object)...)
			}
			if len(wanted) == 0 {
				t.Error("there are no references")
			}
			for _, ref := range wanted {
				if !slices.Contains(present, ref) {
					t.Errorf("no %s among %v", ref, present)
				}
			}
		})
	}
}

// references are those of an object to others of its template.
func references(object client.Object) []string {
	var found []string
	add := func(ref clusterv1.ContractVersionedObjectReference) {
		if ref.IsDefined() {
			found = append(found, reference(ref.APIGroup, ref.Kind, ref.Name))
		}
	}
	switch o := object.(type) {
	case *clusterv1.Cluster:
		add(o.Spec.ControlPlaneRef)
		add(o.Spec.InfrastructureRef)
		if o.Spec.Topology.IsDefined() {
			found = append(found, reference(clusterv1.GroupVersion.Group, "ClusterClass", o.GetClassKey().Name))
		}
	case *clusterv1.MachineDeployment:
		add(o.Spec.Template.Spec.Bootstrap.ConfigRef)
		add(o.Spec.Template.Spec.InfrastructureRef)
		found = append(found, reference(clusterv1.GroupVersion.Group, "Cluster", o.Spec.ClusterName))
	}
	return found
}
