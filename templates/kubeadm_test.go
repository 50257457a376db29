package templates

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	kubeadmv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/cloudinit"
	kubeadmtypes "sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/types"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/cluster-api/util/version"
	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/configuration"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/unit"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/loadbalancer"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenant"
)

const certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"

// secrets are those that the control plane keeps for the Cluster, by name and key.
func secrets(t *testing.T) map[kubeadmv1.SecretFileSource]string {
	t.Helper()
	config, err := loadbalancer.Configuration([]string{"192.0.2.1:20000", "192.0.2.2:20000"}, []string{"10.96.0.0/16"}, ports.Of(20000))
	if err != nil {
		t.Fatal(err)
	}
	return map[kubeadmv1.SecretFileSource]string{
		{Name: names.LoadBalancer("blue"), Key: loadbalancer.Key}:                 string(config),
		{Name: secret.Name("blue", secret.ClusterCA), Key: secret.TLSCrtDataName}: certificate,
	}
}

// cloudConfig is what a machine gets.
type cloudConfig struct {
	Files []struct {
		Path        string `json:"path"`
		Permissions string `json:"permissions"`
		Content     string `json:"content"`
	} `json:"write_files"`
	Commands []string `json:"runcmd"`
}

func (c *cloudConfig) file(t *testing.T, path string) string {
	t.Helper()
	for _, file := range c.Files {
		if file.Path == path {
			return file.Content
		}
	}
	t.Fatalf("there is no file %s", path)
	return ""
}

// bootstrapData is what Cluster API's kubeadm bootstrap provider makes of the template for a worker, by its
// own code.
func bootstrapData(t *testing.T) *cloudConfig {
	t.Helper()
	spec := one[*kubeadmv1.KubeadmConfigTemplate](t, render(t, "cluster-template-kubeadm.yaml")).Spec.Template.Spec
	known := secrets(t)
	for i := range spec.Files {
		if source := spec.Files[i].ContentFrom; source.IsDefined() {
			content, ok := known[source.Secret]
			if !ok {
				t.Fatalf("the control plane keeps no Secret %s with key %s", source.Secret.Name, source.Secret.Key)
			}
			spec.Files[i].Content, spec.Files[i].ContentFrom = content, kubeadmv1.FileSource{}
		}
	}
	kubernetes, err := version.ParseTolerantImageTag(needed["KUBERNETES_VERSION"])
	if err != nil {
		t.Fatal(err)
	}
	spec.JoinConfiguration.Discovery.BootstrapToken.Token = "abcdef.0123456789abcdef"
	join, err := kubeadmtypes.MarshalJoinConfigurationForVersion(&spec.JoinConfiguration, kubernetes)
	if err != nil {
		t.Fatal(err)
	}
	data, err := cloudinit.NewNode(&cloudinit.NodeInput{
		BaseUserData: cloudinit.BaseUserData{
			AdditionalFiles: spec.Files, PreKubeadmCommands: spec.PreKubeadmCommands, PostKubeadmCommands: spec.PostKubeadmCommands,
			KubernetesVersion: kubernetes,
		},
		JoinConfiguration: join,
	})
	if err != nil {
		t.Fatal(err)
	}
	config := &cloudConfig{}
	if err := yaml.Unmarshal(data, config); err != nil {
		t.Fatalf("%v in\n%s", err, data)
	}
	return config
}

func TestTheLoadBalancerOfAKubeadmWorkerHasAllThatItNeeds(t *testing.T) {
	machine := bootstrapData(t)
	config, err := configuration.Parse([]byte(machine.file(t, configuration.DefaultPath)))
	if err != nil {
		t.Fatal(err)
	}
	if config.ListenAddress != tenant.LocalServer || len(config.SeedBackends) != 2 {
		t.Errorf("it serves at %s, for %v", config.ListenAddress, config.SeedBackends)
	}
	if got := machine.file(t, config.CertificateAuthorityFile); got != certificate {
		t.Errorf("it trusts %q", got)
	}
	if got := machine.file(t, unit.Path); got != unit.Service {
		t.Errorf("the unit in the template is another than %s of the program:\n%s", unit.Name, got)
	}
	if got := machine.file(t, unit.ServiceAddressPath); config.ServiceAddress == "" || got != unit.ServiceAddress {
		t.Errorf("what it takes to have the address %q is another in the template than of the program:\n%s", config.ServiceAddress, got)
	}
	for _, file := range machine.Files {
		if strings.HasPrefix(file.Path, "/etc/kubernetes/") {
			t.Errorf("kubeadm refuses to join where %s is there", file.Path)
		}
	}
}

func TestTheLoadBalancerOfAKubeadmWorkerRunsBeforeItJoins(t *testing.T) {
	commands := bootstrapData(t).Commands
	at := func(part string) int {
		index := slices.IndexFunc(commands, func(command string) bool { return strings.Contains(command, part) })
		if index < 0 {
			t.Fatalf("no command %q among %q", part, commands)
		}
		return index
	}
	folders, start, join := at("mkdir"), at("systemctl restart "+unit.Name), at("kubeadm join")
	if folders > start || start > join {
		t.Errorf("the order is %q", commands)
	}
	if !strings.Contains(commands[folders], unit.CertificatesDir) {
		t.Errorf("the unit does not start without %s: %s", unit.CertificatesDir, commands[folders])
	}
	if enabled := commands[at("systemctl enable")]; !strings.Contains(enabled, unit.Name) || !strings.Contains(enabled, "kubelet.service") {
		t.Errorf("what starts at the next boot is %q", enabled)
	}
}

// Discovery gives kubelet the server that cluster-info names, and both are the machine's own load balancer.
func TestAKubeadmWorkerKnowsItsOwnLoadBalancerOnly(t *testing.T) {
	join := struct {
		Discovery struct {
			BootstrapToken struct {
				APIServerEndpoint string `json:"apiServerEndpoint"`
			} `json:"bootstrapToken"`
		} `json:"discovery"`
	}{}
	if err := yaml.Unmarshal([]byte(bootstrapData(t).file(t, "/run/kubeadm/kubeadm-join-config.yaml")), &join); err != nil {
		t.Fatal(err)
	}
	if got := join.Discovery.BootstrapToken.APIServerEndpoint; got != tenant.LocalServer {
		t.Errorf("it discovers the cluster at %q", got)
	}
	objects, err := tenant.Objects(tenant.Settings{ClusterName: "blue", Version: "v1.36.3", ServiceCIDRs: []string{"10.96.0.0/16"}, CABundle: []byte(certificate)})
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		configMap, ok := object.(*corev1.ConfigMap)
		if !ok || configMap.Name != bootstrapapi.ConfigMapClusterInfo {
			continue
		}
		info, err := clientcmd.Load([]byte(configMap.Data[bootstrapapi.KubeConfigKey]))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Clusters[""].Server; got != "https://"+tenant.LocalServer {
			t.Errorf("kubelet is told %q", got)
		}
		return
	}
	t.Error("there is no cluster-info")
}
