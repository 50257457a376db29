package registry_test

import (
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rendering"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/exampleproxy"
)

// numbers are the ports of all components of a tenant, as "<component> <port>".
func numbers(of ports.Ports) map[string]int32 {
	all := map[string]int32{}
	for _, component := range registry.Components {
		for _, port := range component.Ports {
			all[component.Name+" "+port.Name] = of.Number(port)
		}
	}
	return all
}

func TestPortsNeverMove(t *testing.T) {
	for name, test := range map[string]struct {
		ports ports.Ports
		want  map[string]int32
	}{
		"host network": {ports.Of(20040), map[string]int32{
			"kube-apiserver https": 20040, "etcd-data client": 20041, "etcd-data peer": 20042, "etcd-data metrics": 20043, "etcd-data backup": 20052,
			"etcd-events client": 20044, "etcd-events peer": 20045, "etcd-events metrics": 20046, "kube-controller-manager https": 20047,
			"kube-scheduler https": 20048, "kube-apiserver agents": 20049, "kube-apiserver admin": 20050, "kube-apiserver health": 20051,
		}},
		"pod network": {ports.OnPodNetwork(6443), map[string]int32{
			"kube-apiserver https": 6443, "etcd-data client": 2379, "etcd-data peer": 2380, "etcd-data metrics": 2381, "etcd-data backup": 2382,
			"etcd-events client": 2379, "etcd-events peer": 2380, "etcd-events metrics": 2381, "kube-controller-manager https": 10257,
			"kube-scheduler https": 10259, "kube-apiserver agents": 6452, "kube-apiserver admin": 6453, "kube-apiserver health": 6454,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := numbers(test.ports); !maps.Equal(got, test.want) {
				t.Errorf("they are %v, want %v", got, test.want)
			}
		})
	}
}

// Two components with one port would keep each other from starting on the host network.
func TestPortsAreDistinctAndInTheBlock(t *testing.T) {
	exampleproxy.Register(t)
	owner := map[int32]string{}
	for name, number := range numbers(ports.Of(20040)) {
		if other, taken := owner[number]; taken {
			t.Errorf("%s and %s have both port %d", name, other, number)
		}
		owner[number] = name
		if !ports.Block(20040).Contains(ports.Span{First: number, Last: number}) {
			t.Errorf("%s has port %d, which is not in the block", name, number)
		}
	}
}

func TestNobodyIsLetInToPortsOnLoopback(t *testing.T) {
	spec := controlplanev1.KOKControlPlaneSpec{}
	spec.Hosting.NetworkMode, spec.Addons.Konnectivity.Mode = controlplanev1.NetworkModePod, controlplanev1.AddonManaged
	in, _, err := rendering.Sample(spec, versions.BuiltIn())
	if err != nil {
		t.Fatal(err)
	}
	for _, component := range registry.Components {
		objects, err := component.Rendered(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			policy, ok := object.(*networkingv1.NetworkPolicy)
			for _, port := range component.Ports {
				if ok && port.Loopback && admits(policy, in.Ports.Number(port)) {
					t.Errorf("%s lets others reach %s", component.Name, port.Name)
				}
			}
		}
	}
}

func admits(policy *networkingv1.NetworkPolicy, number int32) bool {
	for _, rule := range policy.Spec.Ingress {
		for _, port := range rule.Ports {
			if port.Port.IntVal == number {
				return true
			}
		}
		if len(rule.Ports) == 0 {
			return true
		}
	}
	return false
}

// What is rendered and patched of a component follows from its description. CONTRIBUTING.md, "A new component",
// promises it.
func TestANewComponentIsRenderedAndPatchedByItsDescription(t *testing.T) {
	added, settings := exampleproxy.Register(t)
	settings.Image = "registry.example.com/proxy:v1"
	sample := func(t *testing.T, spec controlplanev1.KOKControlPlaneSpec) *appsv1.Deployment {
		t.Helper()
		in, _, err := rendering.Sample(spec, versions.BuiltIn())
		if err != nil {
			t.Fatal(err)
		}
		objects, err := added.Rendered(in)
		if err != nil {
			t.Fatal(err)
		}
		deployment := objects[0].(*appsv1.Deployment)
		stored := patches.Stored{Cluster: in.Cluster, Component: added.Name, Hosted: added.Patches, HostNetwork: !in.OnPodNetwork()}
		if problems := stored.Judge(objects); len(problems) > 0 {
			t.Errorf("its rendering is not taken back from a store: %v", problems)
		}
		return deployment
	}
	onPods := controlplanev1.KOKControlPlaneSpec{}
	onPods.Hosting.NetworkMode = controlplanev1.NetworkModePod
	for mode, test := range map[string]struct {
		spec controlplanev1.KOKControlPlaneSpec
		port int32
	}{"host network": {port: 20013}, "pod network": {onPods, 10299}} {
		t.Run("it listens on its own port on the "+mode, func(t *testing.T) {
			container := sample(t, test.spec).Spec.Template.Spec.Containers[0]
			if container.Ports[0].ContainerPort != test.port || !strings.Contains(strings.Join(container.Args, " "), "--secure-port=") {
				t.Errorf("its ports are %v, its arguments %v", container.Ports, container.Args)
			}
		})
	}
	for name, test := range map[string]struct {
		kind, patch, refused string
	}{
		"labels can be added":                {"Deployment", "metadata: {labels: {a: b}}", ""},
		"its budget can be patched":          {"PodDisruptionBudget", "spec: {maxUnavailable: 2}", ""},
		"its replicas are a field":           {"Deployment", "spec: {replicas: 3}", "set spec.exampleProxy.replicas"},
		"it has no StatefulSet":              {"StatefulSet", "metadata: {labels: {a: b}}", "example-proxy has no StatefulSet"},
		"it has no Service and no ConfigMap": {"Service", "{}", "one of Deployment, NetworkPolicy, PodDisruptionBudget"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := controlplanev1.KOKControlPlaneSpec{Patches: []controlplanev1.Patch{{
				Target: controlplanev1.PatchTarget{Component: added.Name, Kind: test.kind}, Patch: test.patch,
			}}}
			errs := rendering.ValidatePatches(spec, versions.BuiltIn(), nil, field.NewPath("spec", "patches"))
			if test.refused == "" && len(errs) > 0 || test.refused != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), test.refused)) {
				t.Errorf("got %v", errs)
			}
		})
	}
	t.Run("its image is listed for mirrors", func(t *testing.T) {
		settings.Image = ""
		images, err := rendering.Images("v1.36.3", "", versions.BuiltIn())
		if err != nil || !strings.Contains(strings.Join(images, " "), "registry.k8s.io/example-proxy:v1.36.3") {
			t.Errorf("the images are %v, %v", images, err)
		}
	})
}
