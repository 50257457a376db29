package addons

import (
	"bytes"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/addon"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/konnectivity"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/kubeproxy"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/golden"
)

func input() *addon.Input {
	return &addon.Input{
		Version: "v1.36.3", CoreDNSTag: "v1.14.2", KonnectivityTag: "v0.34.0", ImageRepository: "registry.k8s.io",
		Spec: controlplanev1.AddonsSpec{
			KubeProxy: controlplanev1.KubeProxySpec{Mode: controlplanev1.AddonManaged},
			CoreDNS:   controlplanev1.CoreDNSSpec{Mode: controlplanev1.AddonManaged, Replicas: ptr.To[int32](2)},

			Konnectivity: controlplanev1.KonnectivitySpec{Mode: controlplanev1.AddonManaged},
		},
		PodCIDRs: []string{"10.244.0.0/16"}, DNSDomain: "cluster.local", DNSAddress: "10.96.0.10", Server: "127.0.0.1:6443",
	}
}

func customised() *addon.Input {
	in := input()
	in.ImageRepository, in.Version = "registry.example/mirror", "v1.35.4"
	in.PodCIDRs, in.DNSDomain, in.DNSAddress = []string{"10.244.0.0/16", "fd00:10:244::/56"}, "blue.example", "fd00:96::a"
	in.Spec.KubeProxy.Conntrack = controlplanev1.AddonNone
	in.Spec.CoreDNS.Image, in.Spec.CoreDNS.Replicas = "registry.example/dns:own", ptr.To[int32](5)
	in.Spec.Konnectivity.AgentImage = "registry.example/agent:own"
	in.ImagePullSecret = []byte(`{"auths":{}}`)
	return in
}

// patched has a patch for every object of every addon, and one of which no addon takes notice.
func patched() *addon.Input {
	const owned = "metadata: {labels: {example/owner: platform}}"
	in := input()
	for _, patch := range []struct{ component, kind, text string }{
		{"coredns", "ConfigMap", "data:\n  Corefile: |\n    .:53 {\n        forward . 192.0.2.53\n    }\n"},
		{"coredns", "Deployment", "spec: {template: {spec: {containers: [{name: coredns, resources: {limits: {memory: 512Mi}}}]}}}"},
		{"coredns", "Service", "metadata: {annotations: {service.example/internal: \"true\"}}"},
		{"coredns", "ServiceAccount", "imagePullSecrets: [{name: registry}]"},
		{"coredns", "ClusterRole", owned},
		{"coredns", "ClusterRoleBinding", owned},
		{"kube-proxy", "ConfigMap", "data: {config.yaml: 'mode: ipvs'}"},
		{"kube-proxy", "DaemonSet", "spec: {template: {metadata: {annotations: {example/scrape: \"false\"}}}}"},
		{"kube-proxy", "ServiceAccount", "imagePullSecrets: [{name: registry}]"},
		{"kube-proxy", "ClusterRoleBinding", owned},
		{"konnectivity", "ConfigMap", owned},
		{"konnectivity", "ServiceAccount", "imagePullSecrets: [{name: registry}]"},
		{"konnectivity", "Namespace", owned},
		{"konnectivity", "Role", owned},
		{"konnectivity", "RoleBinding", owned},
		{"konnectivity", "ClusterRole", owned},
		{"konnectivity", "ClusterRoleBinding", owned},
		{"konnectivity", "DaemonSet", "spec: {updateStrategy: {rollingUpdate: {maxUnavailable: 1}}}"},
		{"kube-scheduler", "Deployment", "spec: {revisionHistoryLimit: 1}"},
	} {
		in.Patches = append(in.Patches, controlplanev1.Patch{
			Target: controlplanev1.PatchTarget{Component: patch.component, Kind: patch.kind},
			Type:   controlplanev1.PatchStrategicMerge, Patch: patch.text,
		})
	}
	return in
}

func TestAddonsAreAsInTheGoldenFiles(t *testing.T) {
	for name, in := range map[string]*addon.Input{"defaults": input(), "customised": customised(), "patched": patched()} {
		t.Run(name, func(t *testing.T) {
			wanted, unwanted, err := Objects(in)
			if err != nil {
				t.Fatal(err)
			}
			// Where images need no Secret, one of an addon that needed it before is to go.
			for _, object := range unwanted {
				if _, ok := object.(*corev1.Secret); !ok || in.ImagePullSecret != nil {
					t.Errorf("%T %s is not wanted", object, object.GetName())
				}
			}
			golden.Compare(t, name+".yaml", documents(t, wanted))
		})
	}
}

func TestTheGoldenFileShowsAPatchOfEveryObject(t *testing.T) {
	plain, _, err := Objects(input())
	if err != nil {
		t.Fatal(err)
	}
	changed, _, err := Objects(patched())
	if err != nil {
		t.Fatal(err)
	}
	for i, object := range plain {
		if bytes.Equal(documents(t, plain[i:i+1]), documents(t, changed[i:i+1])) {
			t.Errorf("no patch changes %s %s", object.GetObjectKind().GroupVersionKind().Kind, object.GetName())
		}
	}
}

func documents(t *testing.T, objects []client.Object) []byte {
	t.Helper()
	var out bytes.Buffer
	for _, object := range objects {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			t.Fatal(err)
		}
		delete(content, "status")
		document, err := yaml.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\n")
		out.Write(document)
	}
	return out.Bytes()
}

func TestAnAddonThatIsSwitchedOffIsToBeRemoved(t *testing.T) {
	for off, in := range map[string]func(*controlplanev1.AddonsSpec){
		"kube-proxy":   func(spec *controlplanev1.AddonsSpec) { spec.KubeProxy.Mode = controlplanev1.AddonNone },
		"coredns":      func(spec *controlplanev1.AddonsSpec) { spec.CoreDNS.Mode = controlplanev1.AddonNone },
		"konnectivity": func(spec *controlplanev1.AddonsSpec) { spec.Konnectivity.Mode = controlplanev1.AddonNone },
	} {
		t.Run(off, func(t *testing.T) {
			input := input()
			input.ImagePullSecret = []byte(`{"auths":{}}`)
			in(&input.Spec)
			wanted, unwanted, err := Objects(input)
			if err != nil {
				t.Fatal(err)
			}
			for _, object := range wanted {
				if object.GetLabels()[addon.NameLabel] == off {
					t.Errorf("%T %s is wanted", object, object.GetName())
				}
			}
			for _, object := range unwanted {
				if object.GetLabels()[addon.NameLabel] != off {
					t.Errorf("%T %s is not wanted", object, object.GetName())
				}
			}
			if len(wanted) == 0 || len(unwanted) == 0 {
				t.Errorf("%d objects are wanted, %d are not", len(wanted), len(unwanted))
			}
		})
	}
}

func TestAPatchThatIsRefusedIsNamed(t *testing.T) {
	in := patched()
	in.Patches[1].Patch = "spec: {replicas: 3}"
	_, _, err := Objects(in)
	if want := "spec.patches[1]: Deployment of coredns: spec.replicas cannot be patched: set spec.addons.coreDNS.replicas"; err == nil || err.Error() != want {
		t.Errorf("the error is %v", err)
	}
	// To remove an addon its patches are not needed.
	in.Spec.CoreDNS.Mode = controlplanev1.AddonNone
	if _, _, err := Objects(in); err != nil {
		t.Error(err)
	}
}

func TestEveryObjectIsMarkedAndKnowsItsKind(t *testing.T) {
	wanted, _, err := Objects(input())
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range wanted {
		if object.GetLabels()[names.ManagedByLabel] != names.ManagedBy || object.GetObjectKind().GroupVersionKind().Empty() {
			t.Errorf("%T %s has labels %v and kind %s", object, object.GetName(), object.GetLabels(), object.GetObjectKind().GroupVersionKind())
		}
	}
}

func TestAddonsOfNodesReachTheAPIByTheLocalLoadBalancer(t *testing.T) {
	for _, of := range []addon.Addon{kubeproxy.Addon, konnectivity.Addon} {
		objects, err := of.Objects(input())
		if err != nil {
			t.Fatal(err)
		}
		config, err := clientcmd.Load([]byte(addon.Find[*corev1.ConfigMap](objects).Data["kubeconfig"]))
		if err != nil {
			t.Fatal(err)
		}
		access := config.Contexts[config.CurrentContext]
		if server := config.Clusters[access.Cluster].Server; server != "https://127.0.0.1:6443" {
			t.Errorf("%s reaches the API at %s", of.Name, server)
		}
	}
}

// The agent is on its node's network: what it serves without authentication is for the node alone.
func TestTheKonnectivityAgentIsConfined(t *testing.T) {
	objects, err := konnectivity.Addon.Objects(input())
	if err != nil {
		t.Fatal(err)
	}
	pod := addon.Find[*appsv1.DaemonSet](objects).Spec.Template.Spec
	container := pod.Containers[0]
	for _, arg := range []string{
		"--admin-bind-address=127.0.0.1", "--health-server-host=127.0.0.1", "--proxy-server-host=127.0.0.1", "--proxy-server-port=8132",
	} {
		if !slices.Contains(container.Args, arg) {
			t.Errorf("%s is missing in %v", arg, container.Args)
		}
	}
	for what, is := range map[string]bool{
		"runs as root":         !ptr.Deref(pod.SecurityContext.RunAsNonRoot, false),
		"can gain privileges":  ptr.Deref(container.SecurityContext.AllowPrivilegeEscalation, true),
		"writes its image":     !ptr.Deref(container.SecurityContext.ReadOnlyRootFilesystem, false),
		"has capabilities":     !slices.Equal(container.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}),
		"has the host's files": slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil }),
	} {
		if is {
			t.Errorf("it %s", what)
		}
	}
}

func TestKubeProxyStartsAnewWhenItsConfigurationChanges(t *testing.T) {
	template := func(in *addon.Input) map[string]string {
		objects, _, err := Objects(in)
		if err != nil {
			t.Fatal(err)
		}
		return addon.Find[*appsv1.DaemonSet](objects).Spec.Template.Annotations
	}
	other := input()
	other.PodCIDRs = []string{"10.1.0.0/16"}
	first := template(input())
	for what, in := range map[string]*addon.Input{"another range": other, "a patch": patched()} {
		if second := template(in); second[addon.ConfigHashAnnotation] == first[addon.ConfigHashAnnotation] {
			t.Errorf("with %s it stays %s", what, second)
		}
	}
	if first[addon.ConfigHashAnnotation] == "" {
		t.Errorf("annotations %v", first)
	}
}
