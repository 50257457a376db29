//go:build envtest

package templates

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/manifests"
)

// modifier sets a field of an object.
type modifier func(value any, path ...string)

// copied is the class under another name, as a person makes one, with changes.
func copied(t *testing.T, name string, change func(kind string, modify modifier)) []*unstructured.Unstructured {
	t.Helper()
	objects := classOf(t, class, name)
	for _, object := range objects {
		change(object.GetKind(), func(value any, path ...string) {
			if err := unstructured.SetNestedField(object.Object, value, path...); err != nil {
				t.Fatal(err)
			}
		})
	}
	return objects
}

// classOf are the objects of a file with a class, by another name.
func classOf(t *testing.T, file, name string) []*unstructured.Unstructured {
	t.Helper()
	published := one[*clusterv1.ClusterClass](t, render(t, file)).Name
	var objects []*unstructured.Unstructured
	for _, document := range manifests.Documents(read(t, file)) {
		objects = append(objects, parse(t, strings.ReplaceAll(document, "name: "+published, "name: "+name)))
	}
	return objects
}

// classReady waits until Clusters can be of a class.
func (m *managed) classReady(t *testing.T, name string) {
	t.Helper()
	eventually(t, "the class", func() error {
		class := &clusterv1.ClusterClass{}
		m.get(t, name, class)
		ready := conditions.Get(class, clusterv1.ClusterClassVariablesReadyCondition)
		if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration < class.Generation {
			return errors.New("its variables are not ready")
		}
		return nil
	})
}

// another makes a Cluster like this one, of its own name and with changes.
func (m *managed) another(t *testing.T, name string, change func(*clusterv1.Cluster)) *managed {
	t.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: needed["NAMESPACE"], Name: name}}
	m.cluster(t).Spec.DeepCopyInto(&cluster.Spec)
	cluster.Spec.ControlPlaneRef, cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{}, clusterv1.ContractVersionedObjectReference{}
	change(cluster)
	if err := m.client.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.client.Delete(context.WithoutCancel(t.Context()), cluster); err != nil {
			t.Error(err)
		}
	})
	other := &managed{management: m.management, name: name}
	other.reconciled(t)
	return other
}

// ownClass has in its templates what variables set the neighbours of.
func ownClass(t *testing.T, blue *managed) {
	const name = "kok-own"
	expressions := []any{map[string]any{"key": "rack", "operator": "NotIn", "values": []any{"old"}}}
	blue.create(t, copied(t, name, func(kind string, modify modifier) {
		switch kind {
		case "KOKControlPlaneTemplate":
			modify(int64(50), "spec", "template", "spec", "kubeAPIServer", "audit", "maxSizeMB")
			modify([]any{"api.example.com"}, "spec", "template", "spec", "kubeAPIServer", "certSANs")
		case "IDCMachineTemplate":
			modify(expressions, "spec", "template", "spec", "hostSelector", "matchExpressions")
		}
	})...)
	blue.classReady(t, name)
	other := blue.another(t, "own", func(cluster *clusterv1.Cluster) {
		cluster.Spec.Topology.ClassRef.Name = name
		set("apiServerWorkload", `"Deployment"`)(&cluster.Spec.Topology)
		set("workerHostSelector", `{"pool": "large"}`)(&cluster.Spec.Topology)
	})
	found := other.fields(t)
	for path, want := range map[string]string{
		"KOKControlPlane spec.kubeAPIServer.audit.maxSizeMB":                  "50",
		"KOKControlPlane spec.kubeAPIServer.certSANs":                         `["api.example.com"]`,
		"KOKControlPlane spec.kubeAPIServer.workload":                         `"Deployment"`,
		"IDCMachineTemplate spec.template.spec.hostSelector.matchLabels.pool": `"large"`,
		"IDCMachineTemplate spec.template.spec.hostSelector.matchExpressions": `[{"key":"rack","operator":"NotIn","values":["old"]}]`,
	} {
		if found[path] != want {
			t.Errorf("%s is %q, not %q", path, found[path], want)
		}
	}
}
