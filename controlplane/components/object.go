package components

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// Decode reads an embedded asset into its type. Assets are part of the program: one that does not
// decode panics, in the first test already.
func Decode[T any](asset []byte) *T {
	object := new(T)
	if err := yaml.UnmarshalStrict(asset, object); err != nil {
		panic(fmt.Sprintf("decode asset of type %T: %v", object, err))
	}
	return object
}

// SetMeta gives an object of a component its name, namespace and labels.
func SetMeta(object client.Object, in *Input, component, name string) {
	object.SetName(name)
	object.SetNamespace(in.Cluster.Namespace)
	object.SetLabels(names.ComponentLabels(in.Cluster, component))
}

// ConfigMap is a ConfigMap with a component's configuration files.
func ConfigMap(in *Input, component string, files map[string]string) *corev1.ConfigMap {
	config := &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		Data:     files,
	}
	SetMeta(config, in, component, names.Config(in.Cluster.Name, component))
	return config
}

// DisruptionBudget lets one pod of a component be evicted at a time. With a single replica there is
// none: it would make a drain of the host node impossible.
func DisruptionBudget(in *Input, component string, replicas int32) []client.Object {
	if replicas < 2 {
		return nil
	}
	budget := &policyv1.PodDisruptionBudget{
		TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable:             ptr.To(intstr.FromInt32(1)),
			Selector:                   Selector(in, component),
			UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow),
		},
	}
	SetMeta(budget, in, component, names.Object(in.Cluster.Name, component))
	return []client.Object{budget}
}

// Selector selects the pods of a component.
func Selector(in *Input, component string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: names.ComponentLabels(in.Cluster, component)}
}

// Probe points a probe of an asset at a port of the component.
func Probe(probe *corev1.Probe, port int32) {
	probe.HTTPGet.Port = intstr.FromInt32(port)
}
