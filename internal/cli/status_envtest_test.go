//go:build envtest

package cli

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/status"
)

// cluster makes a Cluster with its control plane, as they are before a controller has seen them.
func (s *site) cluster(name string) (*clusterv1.Cluster, *controlplanev1.KOKControlPlane) {
	s.t.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: s.named(name)}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "KOKControlPlane", Name: name}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "IDCCluster", Name: name}
	cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "192.0.2.10", Port: 30443}
	s.create(cluster)
	controlPlane := &controlplanev1.KOKControlPlane{ObjectMeta: s.named(name)}
	controlPlane.Labels = map[string]string{clusterv1.ClusterNameLabel: name}
	controlPlane.Spec.Version = "v1.36.3"
	s.create(controlPlane)
	return cluster, controlPlane
}

func TestTheStatusOfAClusterIsShown(t *testing.T) {
	s := newSite(t)
	s.expect(2, []string{"namespace " + s.namespace + " has no Cluster blue"}, "status", "blue")
	cluster, controlPlane := s.cluster("blue")
	s.expect(1, []string{"Cluster " + s.namespace + "/blue: not available"}, "status", "blue")

	controlPlane.Status.ReadyReplicas, controlPlane.Status.DesiredReplicas = ptr.To[int32](2), ptr.To[int32](3)
	conditions.Set(controlPlane, metav1.Condition{Type: "Available", Status: "True", Reason: "Available"})
	conditions.Set(controlPlane, metav1.Condition{Type: "ControlPlaneComponentsHealthy", Status: "False", Reason: "Unhealthy", Message: "pod blue-kube-apiserver-x is not scheduled"})
	s.status(controlPlane)
	cluster.Status.Phase = "Provisioned"
	conditions.Set(cluster, metav1.Condition{Type: "Available", Status: "True", Reason: "Available"})
	s.status(cluster)
	s.expect(0, []string{"available, and not all is well", "kube-apiserver", "2/3", "ControlPlaneComponentsHealthy is False", "is not scheduled", "https://192.0.2.10:30443"}, "status", "blue")

	var report status.Report
	if err := json.Unmarshal([]byte(s.expect(0, nil, "status", "blue", "--output", "json")), &report); err != nil || !report.Available || report.Well || report.ControlPlane.Components[0].Desired != 3 {
		t.Errorf("%+v, %v", report, err)
	}
	s.expect(0, []string{"available: true", "version: v1.36.3"}, "status", "blue", "-o", "yaml")
	s.expect(0, []string{"blue\n"}, "__complete", "status", "")
}
