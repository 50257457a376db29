package components_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/golden"
)

// documents are objects as YAML, one document each.
func documents[T any](t *testing.T, objects ...T) []byte {
	t.Helper()
	var all bytes.Buffer
	for _, object := range objects {
		raw, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString("---\n")
		all.Write(raw)
	}
	return all.Bytes()
}

// render is everything of one component as YAML: Services, then what the controller stores of its rendering.
func render(t *testing.T, component components.Component, in *components.Input) []byte {
	t.Helper()
	var all []byte
	if component.Services != nil {
		services, err := component.Services(in)
		if err != nil {
			t.Fatal(err)
		}
		all = documents(t, services...)
	}
	objects, err := component.Rendered(in)
	if err != nil {
		t.Fatal(err)
	}
	return append(all, documents(t, objects...)...)
}

func TestRenderings(t *testing.T) {
	for variant, input := range variants {
		for _, component := range registry.Components {
			t.Run(component.Name+"/"+variant, func(t *testing.T) {
				golden.Compare(t, filepath.Join(component.Name, variant+".yaml"), render(t, component, input()))
			})
		}
	}
}

func TestConfigurationFilesOfEtcd(t *testing.T) {
	for variant, input := range variants {
		for _, cluster := range etcd.All {
			t.Run(cluster.Component+"/"+variant, func(t *testing.T) {
				golden.Compare(t, filepath.Join(cluster.Component, variant+".config.yaml"), configuration(t, cluster, input(), etcd.Membership{}))
			})
		}
	}
}

// A member that lost its data must not found a cluster of its own beside the one that lives on, nor
// learn from its file whom to join under its old identity.
func TestMembersThatHaveJoinedStartWithTheirDataOrNotAtAll(t *testing.T) {
	for _, cluster := range etcd.All {
		in := variants["default"]()
		config, err := cluster.Config(in, etcd.Membership{Bootstrapped: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, member := range cluster.Members(in) {
			var file struct {
				State   string `json:"initial-cluster-state"`
				Initial string `json:"initial-cluster"`
				Peer    string `json:"initial-advertise-peer-urls"`
			}
			if err := yaml.Unmarshal([]byte(config.Data[member+".yaml"]), &file); err != nil {
				t.Fatal(err)
			}
			if file.State != "existing" || file.Initial != member+"="+file.Peer {
				t.Errorf("%s: %+v", member, file)
			}
		}
	}
}

// The file of a member that was added names all that etcd lists, and those of the others stay as they are.
func TestAMemberThatWasAddedLearnsWhomToJoin(t *testing.T) {
	in := variants["default"]()
	in.EtcdMembers = map[string]int32{names.EtcdData: 4}
	in.Addresses["blue-etcd-data-3"] = "10.250.0.77"
	members := etcd.Data.Members(in)
	before, err := etcd.Data.Config(in, etcd.Membership{Bootstrapped: true})
	if err != nil {
		t.Fatal(err)
	}
	joining, err := etcd.Data.Config(in, etcd.Membership{Bootstrapped: true, Listed: members, Joining: members[3]})
	if err != nil {
		t.Fatal(err)
	}
	for i, member := range members {
		file := member + ".yaml"
		read, err := etcd.Read(joining.Data[file])
		if err != nil {
			t.Fatal(err)
		}
		if i < 3 && (read.Open() || joining.Data[file] != before.Data[file]) {
			t.Errorf("the file of %s, which stays, is changed: %s", member, joining.Data[file])
		}
		if i == 3 && (!read.Open() || strings.Count(joining.Data[file], "=https://") != 4) {
			t.Errorf("the file of %s, which joins: %s", member, joining.Data[file])
		}
	}
}

func configuration(t *testing.T, cluster etcd.Cluster, in *components.Input, membership etcd.Membership) []byte {
	t.Helper()
	config, err := cluster.Config(in, membership)
	if err != nil {
		t.Fatal(err)
	}
	return documents(t, config)
}
