package tenant

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/apply"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/golden"
)

func settings() Settings {
	return Settings{
		ClusterName: "blue", Version: "v1.36.3",
		PodCIDRs: []string{"10.128.0.0/16"}, ServiceCIDRs: []string{"10.96.0.0/16"},
		CABundle: []byte("-----BEGIN CERTIFICATE-----\n"),
	}
}

func TestObjectsAreAsInTheGoldenFile(t *testing.T) {
	for name, edit := range map[string]func(*Settings){
		"defaults": func(*Settings) {},
		"everything": func(s *Settings) {
			s.PodCIDRs, s.ServiceCIDRs = []string{"10.128.0.0/16", "fd01::/48"}, []string{"10.96.0.0/16", "fd02::/112"}
			s.DNSDomain, s.Server, s.ImageRepository, s.KubeletServerTLSBootstrap = "blue.example", "[fd00::1]:443", "mirror.example/k8s", true
		},
		"one address of all API servers": func(s *Settings) { s.APIServers = netip.MustParseAddrPort("192.0.2.80:6443") },
	} {
		t.Run(name, func(t *testing.T) {
			s := settings()
			edit(&s)
			objects, err := Objects(s)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			for _, object := range objects {
				rendered, err := apply.Prepare(object, clientgoscheme.Scheme)
				if err != nil {
					t.Fatal(err)
				}
				rendered.SetAnnotations(nil) // It is the mark of the rest.
				content, err := yaml.Marshal(rendered.Object)
				if err != nil {
					t.Fatal(err)
				}
				out.WriteString("---\n")
				out.Write(content)
			}
			golden.Compare(t, strings.ReplaceAll(name, " ", "-")+".yaml", out.Bytes())
		})
	}
}

func data(t *testing.T, s Settings, name, key string) string {
	t.Helper()
	objects, err := Objects(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if found, ok := object.(*corev1.ConfigMap); ok && found.Name == name {
			return found.Data[key]
		}
	}
	t.Fatalf("no ConfigMap %s", name)
	return ""
}

func TestClusterInfoIsAKubeconfigWithoutCredentials(t *testing.T) {
	config, err := clientcmd.Load([]byte(data(t, settings(), "cluster-info", "kubeconfig")))
	if err != nil {
		t.Fatal(err)
	}
	cluster := config.Clusters[""]
	if cluster == nil || cluster.Server != "https://127.0.0.1:6443" || !bytes.Equal(cluster.CertificateAuthorityData, settings().CABundle) {
		t.Errorf("cluster %+v", cluster)
	}
	if len(config.AuthInfos) != 0 {
		t.Errorf("it has credentials: %v", config.AuthInfos)
	}
}

func TestKubeadmConfigIsReadByClusterAPI(t *testing.T) {
	parsed, additional, err := types.UnmarshalClusterConfiguration(data(t, settings(), "kubeadm-config", "ClusterConfiguration"))
	if err != nil {
		t.Fatal(err)
	}
	if parsed.ControlPlaneEndpoint != "127.0.0.1:6443" || *additional.KubernetesVersion != "v1.36.3" || *additional.ServiceSubnet != "10.96.0.0/16" ||
		*additional.PodSubnet != "10.128.0.0/16" || *additional.DNSDomain != "cluster.local" || *additional.ClusterName != "blue" {
		t.Errorf("%+v, %+v", parsed, additional)
	}
}

func TestKubeletConfigIsStrictlyValid(t *testing.T) {
	parsed := kubeletv1beta1.KubeletConfiguration{}
	if err := yaml.UnmarshalStrict([]byte(data(t, settings(), "kubelet-config", "kubelet")), &parsed); err != nil {
		t.Fatal(err)
	}
	if parsed.ClusterDNS[0] != "10.96.0.10" || parsed.ClusterDomain != "cluster.local" || !parsed.RotateCertificates || parsed.ServerTLSBootstrap ||
		*parsed.Authentication.Anonymous.Enabled || !*parsed.Authentication.Webhook.Enabled || parsed.Authorization.Mode != "Webhook" {
		t.Errorf("%+v", parsed)
	}
}

func TestObjectsRefuse(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*Settings)
		has  string
	}{
		"no name":               {func(s *Settings) { s.ClusterName = "" }, "cluster name is empty"},
		"no version":            {func(s *Settings) { s.Version = "" }, "version is empty"},
		"no CA":                 {func(s *Settings) { s.CABundle = nil }, "CA bundle is empty"},
		"no Service CIDR":       {func(s *Settings) { s.ServiceCIDRs = nil }, "spec.clusterNetwork.services.cidrBlocks"},
		"a bad Service CIDR":    {func(s *Settings) { s.ServiceCIDRs = []string{"10.96"} }, "invalid CIDR address: 10.96"},
		"a tiny Service CIDR":   {func(s *Settings) { s.ServiceCIDRs = []string{"10.96.0.0/29"} }, "10.96.0.0/29"},
		"a server without port": {func(s *Settings) { s.Server = "10.0.0.1" }, "want host:port"},
		"a server with a path":  {func(s *Settings) { s.Server = "10.0.0.1:6443/" }, "want host:port"},
		"a port that is none":   {func(s *Settings) { s.Server = "10.0.0.1:0" }, "want host:port"},
	} {
		t.Run(name, func(t *testing.T) {
			s := settings()
			test.edit(&s)
			if _, err := Objects(s); err == nil || !strings.Contains(err.Error(), test.has) {
				t.Errorf("err = %v", err)
			}
		})
	}
}
