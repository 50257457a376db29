package controllers

import (
	"encoding/base64"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/configuration"
)

var kokControlPlane = clusterv1.ContractVersionedObjectReference{APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KOKControlPlane", Name: "blue"}

func TestWhereKonnectivityServesAgents(t *testing.T) {
	for name, test := range map[string]struct {
		ref  clusterv1.ContractVersionedObjectReference
		want int
	}{
		"beside the API servers of our control plane": {kokControlPlane, 20009},
		"nobody knows where of another provider's": {
			clusterv1.ContractVersionedObjectReference{APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: "blue"}, 0,
		},
		"nobody knows where without a control plane": {clusterv1.ContractVersionedObjectReference{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &clusterv1.Cluster{}
			cluster.Spec.ControlPlaneRef = test.ref
			got, err := konnectivityPort(cluster, []string{"[2001:db8::1]:20000", "192.0.2.1:20000"})
			if got != test.want || err != nil {
				t.Errorf("got %d, %v, want %d", got, err, test.want)
			}
		})
	}
}

func TestTheLoadBalancerOfAMachineLeadsToKonnectivity(t *testing.T) {
	objects := ready()
	objects[0].(*clusterv1.Cluster).Spec.ControlPlaneRef = kokControlPlane
	f := newFixture(t, objects...)
	f.mustReconcile()
	listeners := loadBalancerOf(t, f.data().Data["value"]).AdditionalListeners
	want := configuration.Listener{ListenAddress: "127.0.0.1:8132", BackendPort: 20009}
	if len(listeners) != 1 || listeners[0] != want {
		t.Errorf("it listens at %v besides, want %v", listeners, want)
	}
}

// loadBalancerOf is the load balancer's configuration in bootstrap data.
func loadBalancerOf(t *testing.T, data []byte) *configuration.Configuration {
	t.Helper()
	document := struct {
		WriteFiles []struct{ Path, Content string } `json:"write_files"`
	}{}
	if err := yaml.Unmarshal(data, &document); err != nil {
		t.Fatal(err)
	}
	for _, file := range document.WriteFiles {
		if !strings.HasPrefix(file.Path, "/etc/kok-apiserver-lb/") {
			continue
		}
		content, err := base64.StdEncoding.DecodeString(file.Content)
		if err != nil {
			t.Fatal(err)
		}
		config, err := configuration.Parse(content)
		if err != nil {
			t.Fatal(err)
		}
		return config
	}
	t.Fatal("there is none")
	return nil
}
