package hostcluster

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"text/template"

	utilyaml "sigs.k8s.io/cluster-api/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

func newHost(t *testing.T, name string) *host.Host {
	t.Helper()
	h, err := host.New(host.DefaultNetwork(), t.TempDir(), name)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestServicesOfANode(t *testing.T) {
	h := newHost(t, "idc-2")
	c, err := newCredentials(t.TempDir(), host.DefaultNetwork(), newHost(t, "cloud-1"))
	if err != nil {
		t.Fatal(err)
	}
	services, err := nodeServices(c, h)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range services {
		names = append(names, s.name)
		if s.content() == "" || (s.unit != "" && !strings.Contains(s.unit, "ExecStart=/usr/local/bin/"+s.name)) {
			t.Errorf("unexpected unit of %s:\n%s", s.name, s.unit)
		}
		for _, f := range s.all() {
			if strings.HasSuffix(f.path, ".key") && f.mode != 0o600 {
				t.Errorf("%s of %s has mode %o, want 600", f.path, s.name, f.mode)
			}
		}
	}
	if want := []string{"containerd", "kubelet", "kube-proxy"}; !slices.Equal(names, want) {
		t.Errorf("services %v, want %v", names, want)
	}
	var network struct {
		Plugins []struct {
			IPAM struct{ Ranges [][]struct{ Subnet string } }
		}
	}
	if err := json.Unmarshal(services[0].files[0].data, &network); err != nil {
		t.Fatal(err)
	}
	if got := network.Plugins[0].IPAM.Ranges[0][0].Subnet; got != h.PodCIDR.String() {
		t.Errorf("pods get addresses of %s, want the host's %s", got, h.PodCIDR)
	}
}

func TestContentOfAServiceFollowsItsFiles(t *testing.T) {
	s := service{name: "a", unit: "u", files: []file{{"/etc/a", []byte("1"), 0o600}}}
	first := s.content()
	s.files = []file{{"/etc/a", []byte("2"), 0o600}}
	second := s.content()
	s.unit = "v"
	if third := s.content(); first == second || second == third {
		t.Error("a service with other files has the same content")
	}
}

func TestManifestsAreComplete(t *testing.T) {
	set := &artifacts.Set{ProvisionerImage: "example.com/provisioner:1"}
	err := fs.WalkDir(manifests, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(manifests, path)
		if err != nil {
			return err
		}
		parsed, err := template.New(path).Option("missingkey=error").Parse(string(data))
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if err := parsed.Execute(&text, set); err != nil {
			return err
		}
		objects, err := utilyaml.ToUnstructured(text.Bytes())
		if err != nil {
			return err
		}
		if len(objects) == 0 {
			t.Errorf("%s has no object", path)
		}
		for _, o := range objects {
			if o.GetKind() == "" || o.GetName() == "" {
				t.Errorf("%s has an object without kind or name: %v", path, o.Object)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestKubeletsKeepImagesAndAskTheAPI(t *testing.T) {
	data, err := yaml.Marshal(kubeletConfig(newHost(t, "idc-1")))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"imageGCHighThresholdPercent: 100", "failCgroupV1: false", "mode: Webhook", "enabled: false"} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%q is missing in:\n%s", want, data)
		}
	}
}
