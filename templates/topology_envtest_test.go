//go:build envtest

package templates

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

// managed is a Cluster with a topology, and what Cluster API makes of it.
type managed struct {
	*management
	name string
}

// fields are the values in specs of a topology's objects, each as JSON by its kind and path.
type fields map[string]string

// parse reads an object without a type: fields that ours do not have are kept.
func parse(t *testing.T, document string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
		t.Fatal(err)
	}
	return object
}

// create creates the objects of a template, as kubectl does with what clusterctl renders.
func (m *management) create(t *testing.T, objects ...*unstructured.Unstructured) {
	t.Helper()
	for _, object := range objects {
		object.SetNamespace(needed["NAMESPACE"])
		if err := m.client.Create(t.Context(), object); err != nil {
			t.Fatalf("create %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}

func (c *managed) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: needed["NAMESPACE"], Name: name}
}

func (c *managed) get(t *testing.T, name string, object client.Object) {
	t.Helper()
	if err := c.client.Get(t.Context(), c.key(name), object); err != nil {
		t.Fatal(err)
	}
}

func (c *managed) cluster(t *testing.T) *clusterv1.Cluster {
	t.Helper()
	cluster := &clusterv1.Cluster{}
	c.get(t, c.name, cluster)
	return cluster
}

// edit changes the Cluster's topology, as a person does.
func (c *managed) edit(t *testing.T, change func(*clusterv1.Topology)) error {
	t.Helper()
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		cluster := c.cluster(t)
		change(&cluster.Spec.Topology)
		return c.client.Update(t.Context(), cluster)
	})
}

// set changes the value of a variable, which is JSON.
func set(name, value string) func(*clusterv1.Topology) {
	return func(topology *clusterv1.Topology) {
		unset(name)(topology)
		variable := clusterv1.ClusterVariable{Name: name}
		variable.Value.Raw = []byte(value)
		topology.Variables = append(topology.Variables, variable)
	}
}

func unset(name string) func(*clusterv1.Topology) {
	return func(topology *clusterv1.Topology) {
		topology.Variables = slices.DeleteFunc(topology.Variables, func(v clusterv1.ClusterVariable) bool { return v.Name == name })
	}
}

// reconciled waits until the objects of the topology are as it wants them.
func (c *managed) reconciled(t *testing.T) {
	t.Helper()
	eventually(t, "the topology of "+c.name, func() error {
		cluster := c.cluster(t)
		condition := conditions.Get(cluster, clusterv1.ClusterTopologyReconciledCondition)
		if condition == nil || condition.ObservedGeneration < cluster.Generation || condition.Status != metav1.ConditionTrue {
			return fmt.Errorf("generation %d, condition %+v", cluster.Generation, condition)
		}
		return nil
	})
}

// notReconciled waits until the Cluster says why its topology cannot be had.
func (c *managed) notReconciled(t *testing.T, why string) {
	t.Helper()
	eventually(t, "the refusal of the topology of "+c.name, func() error {
		condition := conditions.Get(c.cluster(t), clusterv1.ClusterTopologyReconciledCondition)
		if condition == nil || condition.Reason != clusterv1.ClusterTopologyReconciledFailedReason || !strings.Contains(condition.Message, why) {
			return fmt.Errorf("condition %+v", condition)
		}
		return nil
	})
}

// objects are those that Cluster API made of the topology.
func (c *managed) objects(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	cluster := c.cluster(t)
	machines := &clusterv1.MachineDeployment{}
	c.get(t, c.name+"-workers", machines)
	template := machines.Spec.Template.Spec
	var all []*unstructured.Unstructured
	for _, ref := range []clusterv1.ContractVersionedObjectReference{
		cluster.Spec.ControlPlaneRef, cluster.Spec.InfrastructureRef, template.Bootstrap.ConfigRef, template.InfrastructureRef,
	} {
		all = append(all, c.untyped(t, schema.GroupVersionKind{Group: ref.APIGroup, Version: "v1alpha1", Kind: ref.Kind}, ref.Name))
	}
	for _, kind := range []string{"MachineDeployment", "MachineHealthCheck"} {
		all = append(all, c.untyped(t, clusterv1.GroupVersion.WithKind(kind), machines.Name))
	}
	return all
}

func (c *managed) untyped(t *testing.T, kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	c.get(t, name, object)
	return object
}

// generated are names that Cluster API makes anew when it replaces a template.
var generated = []string{
	"MachineDeployment spec.template.spec.bootstrap.configRef.name",
	"MachineDeployment spec.template.spec.infrastructureRef.name",
}

// fields are those of all objects of the topology.
func (c *managed) fields(t *testing.T) fields {
	t.Helper()
	found := fields{}
	for _, object := range c.objects(t) {
		found.add(t, object)
	}
	for _, name := range generated {
		delete(found, name)
	}
	return found
}

func (f fields) add(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	spec, _, err := unstructured.NestedMap(object.Object, "spec")
	if err != nil {
		t.Fatal(err)
	}
	if spec == nil {
		spec = map[string]any{}
	}
	f.flatten(t, object.GetKind()+" spec", spec)
}

func (f fields) flatten(t *testing.T, path string, value any) {
	t.Helper()
	if object, ok := value.(map[string]any); ok && len(object) > 0 {
		for key, inner := range object {
			f.flatten(t, path+"."+key, inner)
		}
		return
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	f[path] = string(text)
}

// of are the fields of one kind.
func (f fields) of(kind string) fields {
	part := maps.Clone(f)
	maps.DeleteFunc(part, func(path, _ string) bool { return !strings.HasPrefix(path, kind+" ") })
	return part
}

// changes are the fields of after that are not as before, with "" for those that are gone.
func changes(before, after fields) fields {
	changed := fields{}
	for path, value := range after {
		if before[path] != value {
			changed[path] = value
		}
	}
	for path := range before {
		if _, ok := after[path]; !ok {
			changed[path] = ""
		}
	}
	return changed
}

func expect(t *testing.T, got, want fields) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("changed are %q, not %q", got, want)
	}
}

// write changes an object and its status, as a controller does.
func write[T client.Object](t *testing.T, c *managed, name string, object T, change func(T)) {
	t.Helper()
	c.get(t, name, object)
	before := object.DeepCopyObject().(T)
	change(object)
	status := object.DeepCopyObject().(T)
	if err := c.client.Patch(t.Context(), object, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if err := c.client.Status().Patch(t.Context(), status, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// running plays the controllers of our providers: it writes what they write when the control plane has started, or
// runs other versions.
func (c *managed) running(t *testing.T, versions ...string) {
	t.Helper()
	// The kubeconfig comes first: Cluster API connects when there is infrastructure, and tries again only after half a minute.
	kubeconfig := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: needed["NAMESPACE"], Name: secret.Name(c.name, secret.Kubeconfig), Labels: map[string]string{clusterv1.ClusterNameLabel: c.name},
	}}
	// The management cluster is its own tenant.
	kubeconfig.Data = map[string][]byte{secret.KubeconfigDataName: c.server.KubeConfig}
	if err := client.IgnoreAlreadyExists(c.client.Create(t.Context(), kubeconfig)); err != nil {
		t.Fatal(err)
	}
	write(t, c, c.name, &controlplanev1.KOKControlPlane{}, func(controlPlane *controlplanev1.KOKControlPlane) {
		controlPlane.Spec.Hosting.Ports.First = 20000
		controlPlane.Spec.ControlPlaneEndpoint = controlplanev1.APIEndpoint{Host: "10.0.0.1", Port: 6443}
		controlPlane.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
		controlPlane.Status.ExternalManagedControlPlane = ptr.To(true)
		controlPlane.Status.Versions = nil
		for _, version := range versions {
			controlPlane.Status.Versions = append(controlPlane.Status.Versions, clusterv1.StatusVersion{Version: version})
		}
		conditions.Set(controlPlane, metav1.Condition{Type: clusterv1.AvailableCondition, Status: metav1.ConditionTrue, Reason: clusterv1.AvailableReason})
	})
	write(t, c, c.name, &infrav1.IDCCluster{}, func(infrastructure *infrav1.IDCCluster) {
		infrastructure.Status.Initialization.Provisioned = ptr.To(true)
	})
}
