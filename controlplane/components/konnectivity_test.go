package components_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/server/egressselector"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
)

// withKonnectivity are kube-apiserver's pod and configuration in a variant that has konnectivity besides.
func withKonnectivity(t *testing.T, variant string) (corev1.PodSpec, *corev1.ConfigMap) {
	t.Helper()
	component := kubeapiserver.Component
	in := variants[variant]()
	in.Spec.Addons.Konnectivity.Mode = controlplanev1.AddonManaged
	objects, err := component.Objects(component.Inputs(in))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(objects, func(object client.Object) bool { _, ok := object.(*corev1.ConfigMap); return ok })
	return podIn(t, objects).Spec, objects[i].(*corev1.ConfigMap)
}

// A control plane waits for no agent, and stops no later than without konnectivity.
func TestNothingWaitsForKonnectivity(t *testing.T) {
	pod, _ := withKonnectivity(t, "default")
	server := pod.InitContainers[0]
	if server.StartupProbe != nil || server.ReadinessProbe != nil || server.Lifecycle != nil {
		t.Error("kube-apiserver, or its readiness, waits for the server")
	}
	probe := server.LivenessProbe
	if probe == nil || probe.HTTPGet.Host != "127.0.0.1" || probe.HTTPGet.Path != "/healthz" || probe.HTTPGet.Port.IntVal != 20011 {
		t.Errorf("the liveness probe is %v", probe)
	}
}

func TestKonnectivityListensOnLoopbackButForAgents(t *testing.T) {
	pod, _ := withKonnectivity(t, "default")
	for _, arg := range []string{
		"--admin-bind-address=127.0.0.1", "--admin-port=20010", "--health-bind-address=127.0.0.1", "--health-port=20011",
		"--agent-bind-address=0.0.0.0", "--agent-port=20009", "--server-port=0", "--uds-name=/run/konnectivity/server.sock",
	} {
		if !slices.Contains(pod.InitContainers[0].Args, arg) {
			t.Errorf("%s is missing in %v", arg, pod.InitContainers[0].Args)
		}
	}
	if pod, _ = withKonnectivity(t, "ipv6"); !slices.Contains(pod.InitContainers[0].Args, "--agent-bind-address=::") {
		t.Errorf("agents by IPv6 do not come to %v", pod.InitContainers[0].Args)
	}
}

// kube-apiserver reads the file as here, and meets the server at the socket that both mount.
func TestKubeAPIServerTakesTheEgressSelector(t *testing.T) {
	pod, config := withKonnectivity(t, "default")
	path := filepath.Join(t.TempDir(), "egress-selector.yaml")
	if err := os.WriteFile(path, []byte(config.Data[filepath.Base(path)]), 0o600); err != nil {
		t.Fatal(err)
	}
	selector, err := egressselector.ReadEgressSelectorConfiguration(path)
	if err != nil {
		t.Fatal(err)
	}
	if errs := egressselector.ValidateEgressSelectorConfiguration(selector); len(errs) > 0 {
		t.Fatal(errs)
	}
	socket := selector.EgressSelections[0].Connection.Transport.UDS.UDSName
	for _, container := range containersOf(pod) {
		if !slices.ContainsFunc(container.VolumeMounts, func(mount corev1.VolumeMount) bool {
			return mount.Name == "kok-konnectivity" && mount.MountPath == filepath.Dir(socket) && !mount.ReadOnly
		}) {
			t.Errorf("%s does not share %s", container.Name, socket)
		}
	}
	if !slices.Contains(pod.InitContainers[0].Args, "--uds-name="+socket) {
		t.Errorf("the server does not listen at %s", socket)
	}
	if !slices.Contains(pod.Containers[0].Args, "--egress-selector-config-file=/etc/kubernetes/config/egress-selector.yaml") {
		t.Error("kube-apiserver does not read the file")
	}
}

// The sidecar can be dialled by workers: of all that kube-apiserver mounts it gets its own files alone.
func TestKonnectivityHoldsNoKeysButItsOwn(t *testing.T) {
	pod, _ := withKonnectivity(t, "default")
	for _, mount := range pod.InitContainers[0].VolumeMounts {
		i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		volume := pod.Volumes[i]
		if volume.EmptyDir != nil {
			continue
		}
		if volume.Projected == nil {
			t.Errorf("it mounts %s", volume.Name)
			continue
		}
		for _, source := range volume.Projected.Sources {
			if len(source.Secret.Items) == 0 {
				t.Errorf("it mounts all of Secret %s", source.Secret.Name)
			}
			for _, item := range source.Secret.Items {
				if !strings.HasPrefix(item.Key, "konnectivity") && item.Key != "ca.crt" {
					t.Errorf("it mounts %s of Secret %s", item.Key, source.Secret.Name)
				}
			}
		}
	}
}

func TestNothingIsThereOfAKonnectivityThatIsSwitchedOff(t *testing.T) {
	if rendering := render(t, kubeapiserver.Component, variants["default"]()); bytes.Contains(rendering, []byte("konnectivity")) || bytes.Contains(rendering, []byte("egress")) {
		t.Errorf("it is in\n%s", rendering)
	}
}

func TestImagesOfKonnectivitysServer(t *testing.T) {
	for variant, want := range map[string]string{
		"default": "registry.k8s.io/kas-network-proxy/proxy-server:v0.34.0", "customised": "registry.example/proxy-server:patched",
	} {
		pod, _ := withKonnectivity(t, variant)
		if got := pod.InitContainers[0].Image; got != want {
			t.Errorf("%s: the image is %s, want %s", variant, got, want)
		}
	}
}

// kube-apiserver has three kinds of connections (KEP-1281): of these a tenant's administrators choose the addresses of two. Its
// own etcd is not reached through workers.
func TestFinding2NothingThatTenantsNameIsDialledByAPIServers(t *testing.T) {
	_, config := withKonnectivity(t, "default")
	path := filepath.Join(t.TempDir(), "egress-selector.yaml")
	if err := os.WriteFile(path, []byte(config.Data[filepath.Base(path)]), 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := egressselector.ReadEgressSelectorConfiguration(path)
	if err != nil {
		t.Fatal(err)
	}
	selector, err := egressselector.NewEgressSelector(read)
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[egressselector.EgressType]bool{egressselector.Cluster: true, egressselector.ControlPlane: true, egressselector.Etcd: false} {
		dial, err := selector.Lookup(kind.AsNetworkContext())
		if err != nil {
			t.Fatal(err)
		}
		if confined := dial != nil; confined != want {
			t.Errorf("it is %t that %s goes through workers", confined, kind.AsNetworkContext().EgressSelectionName)
		}
	}
}

// kube-apiserver reads the configuration once: pods say which one it was, so that another makes new ones.
func TestFinding2PodsSayWhatGoesThroughWorkers(t *testing.T) {
	in := variants["default"]()
	pod := func() *corev1.Pod {
		objects, err := kubeapiserver.Component.Objects(kubeapiserver.Component.Inputs(in))
		if err != nil {
			t.Fatal(err)
		}
		template := podIn(t, objects)
		return &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	}
	if open := pod(); kubeapiserver.ConfinesEgress(open) || kubeapiserver.HasKonnectivity(open) {
		t.Error("one without konnectivity counts as confined")
	}
	in.Spec.Addons.Konnectivity.Mode = controlplanev1.AddonManaged
	confined := pod()
	if !kubeapiserver.ConfinesEgress(confined) || !kubeapiserver.HasKonnectivity(confined) {
		t.Error("one with konnectivity does not count as confined")
	}
	if got := confined.Annotations[kubeapiserver.EgressAnnotation]; got != "cluster,controlplane" {
		t.Errorf("it says %q", got)
	}
	delete(confined.Annotations, kubeapiserver.EgressAnnotation)
	if kubeapiserver.ConfinesEgress(confined) {
		t.Error("one of an older release counts as confined")
	}
}
