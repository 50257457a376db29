// Package templates checks the templates of Clusters.
package templates

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/manifests"
)

// needed are the variables without a default, as clusterctl sets them by its arguments.
var needed = map[string]string{
	"CLUSTER_NAME": "blue", "NAMESPACE": "team", "KUBERNETES_VERSION": "v1.36.3", "WORKER_MACHINE_COUNT": "2",
}

// read is the content of a file.
func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// fill fills a template in.
func fill(t *testing.T, file string) string {
	t.Helper()
	return fillWith(t, file, needed)
}

// fillWith fills a template in with values of variables.
func fillWith(t *testing.T, file string, variables map[string]string) string {
	t.Helper()
	filled, err := manifests.Fill([]byte(read(t, file)), variables)
	if err != nil {
		t.Fatal(err)
	}
	return filled
}

// render fills a template in and decodes it.
func render(t *testing.T, file string) []client.Object {
	t.Helper()
	return decodeAll(t, fill(t, file))
}

func decodeAll(t *testing.T, filled string) []client.Object {
	t.Helper()
	objects, err := manifests.Decode(filled)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// one is the only object of a type.
func one[T client.Object](t *testing.T, objects []client.Object) T {
	t.Helper()
	found, err := manifests.One[T](objects)
	if err != nil {
		t.Fatal(err)
	}
	return found
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
