package etcd_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
)

// What a person runs in the pod of a member finds etcd and its files as the configuration of that member has them.
func TestEtcdctlConnectsToWhatTheConfigurationSays(t *testing.T) {
	const all4, all6 = "https://0.0.0.0:", "https://[::]:"
	for _, test := range []struct {
		cluster etcd.Cluster
		ports   ports.Ports
		address string
		listens string
		port    int
	}{
		{etcd.Data, ports.Of(20000), "10.250.0.1", all4, 20001},
		{etcd.Data, ports.Of(20000), "fd00:250::1", all6, 20001},
		{etcd.Data, ports.OnPodNetwork(6443), "10.250.0.1", all4, 2379},
		{etcd.Data, ports.OnPodNetwork(6443), "fd00:250::1", all6, 2379},
		{etcd.Events, ports.Of(20000), "10.250.0.1", all4, 20004},
		{etcd.Events, ports.OnPodNetwork(6443), "10.250.0.1", all4, 2379},
	} {
		member := "blue-" + test.cluster.Component + "-0"
		in := &components.Input{Cluster: client.ObjectKey{Namespace: "team", Name: "blue"}, Addresses: map[string]string{member: test.address}, Ports: test.ports}
		spec := &in.Spec.Etcd.Data
		if test.cluster.Component == etcd.Events.Component {
			spec = &in.Spec.Etcd.Events.EtcdClusterSpec
		}
		spec.Replicas, spec.QuotaBackendSize = ptr.To[int32](1), ptr.To(resource.MustParse("1Gi"))
		files, err := test.cluster.Config(in, etcd.Membership{})
		if err != nil {
			t.Fatal(err)
		}
		var config struct {
			Listens string `json:"listen-client-urls"`
			Clients struct {
				Cert string `json:"cert-file"`
				Key  string `json:"key-file"`
			} `json:"client-transport-security"`
			Peers struct {
				TrustedCA string `json:"trusted-ca-file"`
			} `json:"peer-transport-security"`
		}
		if err := yaml.Unmarshal([]byte(files.Data[member+".yaml"]), &config); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%s%d", test.listens, test.port); config.Listens != want {
			t.Errorf("%s listens at %s, want %s", member, config.Listens, want)
		}
		got := strings.Fields(test.cluster.Etcdctl("team", member, test.ports))
		want := []string{
			"kubectl", "--namespace", "team", "exec", member, "--container", "etcd", "--", "etcdctl", "--endpoints", fmt.Sprintf("https://127.0.0.1:%d", test.port),
			"--cacert", config.Peers.TrustedCA, "--cert", config.Clients.Cert, "--key", config.Clients.Key,
		}
		if !slices.Equal(got, want) {
			t.Errorf("got  %q,\nwant %q", got, want)
		}
	}
}
