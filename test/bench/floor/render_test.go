package floor

import (
	"path"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/shape"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

func renderFor(t *testing.T, s shape.Shape) *rendering {
	t.Helper()
	cluster, controlPlane := s.Objects(client.ObjectKey{Namespace: "default", Name: "floor"}, "v1.36.3", nil)
	spec := controlPlane.Spec
	spec.ImageRepository, spec.Addons.Konnectivity.Mode = "registry.k8s.io", controlplanev1.AddonManaged
	for _, etcd := range []*controlplanev1.EtcdClusterSpec{&spec.Etcd.Data, &spec.Etcd.Events.EtcdClusterSpec} {
		etcd.QuotaBackendSize, etcd.Storage.Size = ptr.To(resource.MustParse("2Gi")), ptr.To(resource.MustParse("8Gi"))
	}
	config := &Config{Shape: s, Version: "v1.36.3", Spec: spec, Network: components.NetworkOf(cluster)}
	for _, name := range []string{"idc-1", "idc-2", "idc-3"} {
		h, err := host.New(host.DefaultNetwork(), t.TempDir(), name)
		if err != nil {
			t.Fatal(err)
		}
		config.Hosts = append(config.Hosts, h)
	}
	rendered, err := render(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return rendered
}

func TestEveryReplicaBecomesAProcess(t *testing.T) {
	for _, s := range []shape.Shape{shape.HighlyAvailable, shape.Single} {
		found := map[string]int32{}
		for _, p := range renderFor(t, s).processes {
			found[p.Component]++
		}
		for _, component := range shape.Components() {
			if found[component] != s.Replicas(component) {
				t.Errorf("%s has %d processes of %s, want %d", s.Name, found[component], component, s.Replicas(component))
			}
		}
	}
}

// Every file that arguments and files name is there, and nothing names a path of a container.
func TestPathsOfContainersBecomePathsOfTheHost(t *testing.T) {
	for _, p := range renderFor(t, shape.HighlyAvailable).processes {
		texts := append([]string{}, p.Argv...)
		for name, content := range p.Files {
			if path.Base(name) != kubeapiserver.KonnectivityKubeconfigFile { // Its reader is not there.
				texts = append(texts, strings.Fields(string(content))...)
			}
		}
		named := 0
		for _, text := range texts {
			if strings.Contains(text, "/etc/kubernetes") || strings.Contains(text, "/etc/etcd") || strings.Contains(text, "$(") {
				t.Errorf("%s: %s", p.Name, text)
			}
			_, file, ok := strings.Cut(text, directory)
			if !ok {
				continue
			}
			named++
			file = directory + file
			isData := slices.ContainsFunc(p.Data, func(directory string) bool { return strings.HasPrefix(file, directory+"/") })
			if _, ok := p.Files[file]; !ok && !isData {
				t.Errorf("%s names %s, which is no file of it", p.Name, file)
			}
		}
		if named == 0 {
			t.Errorf("%s names no file at all", p.Name)
		}
	}
}

func TestMembersAndServersAreReachedAtTheirHosts(t *testing.T) {
	for _, p := range renderFor(t, shape.HighlyAvailable).processes {
		address := p.host.Address.String()
		switch p.Component {
		case names.KubeAPIServer:
			if p.URL != "https://"+address+":6443/readyz" {
				t.Errorf("%s is asked at %s", p.Name, p.URL)
			}
		case names.EtcdData, names.EtcdEvents:
			config := string(p.Files[directory+"/"+p.Name+"/kok-config/"+p.Name+".yaml"])
			if !strings.Contains(config, "advertise-client-urls: https://"+address+":") {
				t.Errorf("%s does not advertise its host %s:\n%s", p.Name, address, config)
			}
		}
	}
}

func TestWhatTalksToAnAPIServerIsBesideOne(t *testing.T) {
	for _, s := range []shape.Shape{shape.HighlyAvailable, shape.Single} {
		processes := renderFor(t, s).processes
		servers := map[string]bool{}
		for _, p := range processes {
			if p.Component == names.KubeAPIServer {
				servers[p.host.Name] = true
			}
		}
		for _, p := range processes {
			if !servers[p.host.Name] {
				t.Errorf("%s: %s is on %s, which has no kube-apiserver", s.Name, p.Name, p.host.Name)
			}
		}
	}
}

func TestOnlyProcessesOfAFloorAreEnded(t *testing.T) {
	file := directory + "/" + cluster + "-etcd-data-0/kok-config/floor-etcd-data-0.yaml"
	for arguments, want := range map[string]bool{
		"etcd\x00--config-file=" + file + "\x00":               true,
		"/usr/bin/nsenter\x00-t\x001\x00--\x00etcd\x00" + file: true,
		"etcd\x00--config-file=/etc/etcd/config/a.yaml\x00":    false,
		"less\x00" + file + "\x00":                             false,
		"":                                                     false,
	} {
		if got := isOurs([]byte(arguments)); got != want {
			t.Errorf("%q: %v", arguments, got)
		}
	}
}
