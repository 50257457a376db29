package tenant

import (
	"os"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// process fills a template in as clusterctl does.
func process(t *testing.T, variables map[string]string) (*clusterv1.Cluster, *controlplanev1.KOKControlPlane) {
	t.Helper()
	template, err := os.ReadFile("../../../templates/cluster-template-control-plane.yaml")
	if err != nil {
		t.Fatal(err)
	}
	filled, err := yamlprocessor.NewSimpleProcessor().Process(template, func(name string) (string, error) { return variables[name], nil })
	if err != nil {
		t.Fatal(err)
	}
	first, second, _ := strings.Cut(string(filled), "\n---\n")
	cluster, controlPlane := &clusterv1.Cluster{}, &controlplanev1.KOKControlPlane{}
	if err := yaml.UnmarshalStrict([]byte(first), cluster); err != nil {
		t.Fatalf("%v:\n%s", err, first)
	}
	if err := yaml.UnmarshalStrict([]byte(second), controlPlane); err != nil {
		t.Fatalf("%v:\n%s", err, second)
	}
	return cluster, controlPlane
}

func TestTheTemplateNeedsThreeVariables(t *testing.T) {
	cluster, controlPlane := process(t, map[string]string{
		"CLUSTER_NAME": "one", "NAMESPACE": "two", "KUBERNETES_VERSION": "v1.36.3",
	})
	if cluster.Name != "one" || cluster.Namespace != "two" || controlPlane.Namespace != "two" {
		t.Errorf("cluster %s/%s, control plane in %s", cluster.Namespace, cluster.Name, controlPlane.Namespace)
	}
	if ref := cluster.Spec.ControlPlaneRef; ref.Kind != "KOKControlPlane" || ref.Name != controlPlane.Name || ref.APIGroup != controlplanev1.GroupVersion.Group {
		t.Errorf("the Cluster refers to %v, not to the KOKControlPlane %s", ref, controlPlane.Name)
	}
	if cluster.Spec.InfrastructureRef.IsDefined() {
		t.Error("the Cluster has an infrastructure")
	}
	if *controlPlane.Spec.Etcd.Data.Replicas != 3 || *controlPlane.Spec.Etcd.Events.Replicas != 3 || *controlPlane.Spec.KubeScheduler.Replicas != 2 {
		t.Error("the control plane is not highly available by default")
	}
}

func TestTheTemplateTakesSmallerControlPlanes(t *testing.T) {
	_, controlPlane := process(t, map[string]string{
		"CLUSTER_NAME": "one", "NAMESPACE": "two", "KUBERNETES_VERSION": "v1.36.3",
		"ETCD_REPLICAS": "1", "ETCD_EVENTS_REPLICAS": "1", "ETCD_STORAGE_TYPE": "EmptyDir",
	})
	if *controlPlane.Spec.Etcd.Data.Replicas != 1 || controlPlane.Spec.Etcd.Events.Storage.Type != controlplanev1.EtcdStorageEmptyDir {
		t.Errorf("etcd is %v", controlPlane.Spec.Etcd)
	}
}
