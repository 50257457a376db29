package components_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubecontrollermanager"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubescheduler"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
)

func TestPodsMountAndNameTheServiceAccountKeysOfThePhase(t *testing.T) {
	const made = "0123456789"
	for name, test := range map[string]struct {
		keys                    components.KeyFiles
		trusted, signs, managed []string
	}{
		"never rotated": {components.KeyFiles{}, []string{"sa.pub"}, []string{"sa.key"}, []string{"sa.key"}},
		"both are trusted": {
			components.KeyFiles{Trusted: []string{"", made}}, []string{"sa.pub", "sa-0123456789.pub"}, []string{"sa.key"}, []string{"sa.key"},
		},
		"the new one is used": {
			components.KeyFiles{Trusted: []string{"", made}, Used: made},
			[]string{"sa.pub", "sa-0123456789.pub"}, []string{"sa-0123456789.key"}, []string{"sa-0123456789.key"},
		},
		"the former one is gone": {
			components.KeyFiles{Trusted: []string{made}, Used: made}, []string{"sa-0123456789.pub"}, []string{"sa-0123456789.key"}, []string{"sa-0123456789.key"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := variants["default"]()
			in.ServiceAccountKeys = test.keys
			apiServer, manager := renderedPod(t, kubeapiserver.Component, in), renderedPod(t, kubecontrollermanager.Component, in)
			filesAre(t, apiServer, "--service-account-key-file=", test.trusted)
			filesAre(t, apiServer, "--service-account-signing-key-file=", test.signs)
			filesAre(t, manager, "--service-account-private-key-file=", test.managed)
			mountsKeys(t, apiServer, "sa", append(slices.Clone(test.trusted), test.signs...))
			mountsKeys(t, manager, "sa", test.managed)

			// What tells of running pods agrees with what is rendered, of every phase and of no other.
			for _, phase := range []components.KeyFiles{
				{}, {Trusted: []string{"", made}}, {Trusted: []string{"", made}, Used: made}, {Trusted: []string{made}, Used: made},
			} {
				same := slices.Equal(phase.Trusted, test.keys.Trusted) && phase.Used == test.keys.Used
				if got := components.ServiceAccountKey.AreOf(phase, names.KubeAPIServer, apiServer); got != same {
					t.Errorf("it is %t that an API server has the keys of %+v", got, phase)
				}
				if got := components.ServiceAccountKey.AreOf(phase, names.KubeControllerManager, manager); got != (phase.Used == test.keys.Used) {
					t.Errorf("it is %t that the controller manager has the keys of %+v", got, phase)
				}
			}
		})
	}
}

// A pod has one configuration, of which the name tells all keys and their order.
func TestAPIServersHaveTheEncryptionConfigurationOfThePhase(t *testing.T) {
	const former, made = "abcdef0123", "0123456789"
	phases := map[string]components.KeyFiles{
		"encryption-configuration.yaml":                       {},
		"encryption-configuration-first-0123456789.yaml":      {Trusted: []string{"", made}},
		"encryption-configuration-0123456789-first.yaml":      {Trusted: []string{"", made}, Used: made},
		"encryption-configuration-0123456789.yaml":            {Trusted: []string{made}, Used: made},
		"encryption-configuration-abcdef0123-0123456789.yaml": {Trusted: []string{former, made}, Used: former},
		"encryption-configuration-0123456789-abcdef0123.yaml": {Trusted: []string{former, made}, Used: made},
	}
	for file, keys := range phases {
		in := variants["default"]()
		in.EncryptionKeys = keys
		apiServer, manager := renderedPod(t, kubeapiserver.Component, in), renderedPod(t, kubecontrollermanager.Component, in)
		filesAre(t, apiServer, "--encryption-provider-config=", []string{file})
		mountsKeys(t, apiServer, "encryption", []string{file})
		mountsKeys(t, apiServer, "sa", []string{"sa.pub", "sa.key"})
		if !slices.Contains(apiServer.Containers[0].Args, "--encryption-provider-config-automatic-reload=true") {
			t.Errorf("%s: another argument is gone", file)
		}
		mountsKeys(t, manager, "encryption", nil)
		for other, phase := range phases {
			if got := components.EncryptionKey.AreOf(phase, names.KubeAPIServer, apiServer); got != (other == file) {
				t.Errorf("it is %t that a pod with %s has %s", got, file, other)
			}
		}
		if got := components.EncryptionKey.IsRotated(names.KubeAPIServer, apiServer); got != (file != "encryption-configuration.yaml") {
			t.Errorf("it is %t that a pod with %s has a key that a rotation made", got, file)
		}
		if components.ServiceAccountKey.IsRotated(names.KubeAPIServer, apiServer) {
			t.Errorf("a pod with %s has a service account key that a rotation made", file)
		}
	}
	if holders := components.EncryptionKey.Holders(); !slices.Equal(holders, []string{names.KubeAPIServer}) {
		t.Errorf("the holders are %v", holders)
	}
}

// API servers show the leaf of the CA that is in use. The others trust alone, and stay as they are when another one comes into use.
func TestPodsTrustAndShowTheFrontProxyCAsOfThePhase(t *testing.T) {
	const former, made = "abcdef0123", "0123456789"
	const born = "/etc/kubernetes/pki/front-proxy-client"
	type phase struct {
		keys          components.KeyFiles
		trusted, leaf string
	}
	phases := []phase{
		{components.KeyFiles{}, "front-proxy-ca.crt", born},
		{components.KeyFiles{Trusted: []string{"", made}}, "front-proxy-ca-first-0123456789.crt", born},
		{components.KeyFiles{Trusted: []string{"", made}, Used: made}, "front-proxy-ca-first-0123456789.crt", "/etc/kubernetes/rotated-pki/front-proxy-client-0123456789"},
		{components.KeyFiles{Trusted: []string{made}, Used: made}, "front-proxy-ca-0123456789.crt", "/etc/kubernetes/rotated-pki/front-proxy-client-0123456789"},
		{components.KeyFiles{Trusted: []string{former, made}, Used: former}, "front-proxy-ca-abcdef0123-0123456789.crt", "/etc/kubernetes/rotated-pki/front-proxy-client-abcdef0123"},
	}
	for _, test := range phases {
		in := variants["default"]()
		in.FrontProxyCAs = test.keys
		pods := map[string]*corev1.PodSpec{
			names.KubeAPIServer:         renderedPod(t, kubeapiserver.Component, in),
			names.KubeControllerManager: renderedPod(t, kubecontrollermanager.Component, in),
			names.KubeScheduler:         renderedPod(t, kubescheduler.Component, in),
		}
		for component, pod := range pods {
			filesAre(t, pod, "--requestheader-client-ca-file=", []string{test.trusted})
			mountsKeys(t, pod, "front-proxy-ca", []string{test.trusted})
			for _, other := range phases {
				same := other.trusted == test.trusted && (component != names.KubeAPIServer || other.leaf == test.leaf)
				if got := components.FrontProxyCA.AreOf(other.keys, component, pod); got != same {
					t.Errorf("it is %t that %s with %+v has %+v", got, component, test.keys, other.keys)
				}
			}
			if got := components.FrontProxyCA.IsRotated(component, pod); got != (test.trusted != "front-proxy-ca.crt") {
				t.Errorf("it is %t that %s with %+v has a CA that a rotation made", got, component, test.keys)
			}
		}
		apiServer := pods[names.KubeAPIServer]
		filesAre(t, apiServer, "--proxy-client-cert-file=", []string{test.leaf + ".crt"})
		filesAre(t, apiServer, "--proxy-client-key-file=", []string{test.leaf + ".key"})
		rotated, isRotated := strings.CutPrefix(test.leaf, components.RotatedCertsDirectory+"/")
		var leaves []string
		if isRotated {
			leaves = []string{rotated + ".crt", rotated + ".key"}
		}
		mountsKeys(t, apiServer, "front-proxy-client", leaves)
		mounted := slices.ContainsFunc(apiServer.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.MountPath == components.RotatedCertsDirectory && m.ReadOnly
		})
		if mounted != isRotated {
			t.Errorf("%+v: it is %t that leaves of rotated CAs are mounted", test.keys, mounted)
		}
	}
}

// A component that has a key which rotates, and that nobody knows to have it, would keep the former one.
func TestWhoeverMountsAKeyThatRotatesFollowsItsRotation(t *testing.T) {
	in := variants["default"]()
	made := components.KeyFiles{Trusted: []string{"0123456789"}, Used: "0123456789"}
	in.ServiceAccountKeys, in.EncryptionKeys, in.FrontProxyCAs = made, made, made
	for _, component := range registry.Components {
		pod := renderedPod(t, component, in)
		for _, volume := range pod.Volumes {
			if volume.Name != "kok-key-material" {
				continue
			}
			for _, item := range volume.Secret.Items {
				// The cluster CA does not rotate.
				if item.Key != "ca.crt" && item.Key != "ca.key" && !strings.Contains(item.Key, "0123456789") {
					t.Errorf("%s mounts %s after a rotation", component.Name, item.Key)
				}
			}
		}
	}
}

func renderedPod(t *testing.T, component components.Component, in *components.Input) *corev1.PodSpec {
	t.Helper()
	rendered, err := component.Rendered(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range rendered {
		if template := patches.PodTemplate(object); template != nil {
			return &template.Spec
		}
	}
	t.Fatalf("%s has no pods", component.Name)
	return nil
}

// filesAre fails unless a pod names these files of key material with an argument.
func filesAre(t *testing.T, pod *corev1.PodSpec, argument string, want []string) {
	t.Helper()
	var got []string
	for _, arg := range pod.Containers[0].Args {
		if file, found := strings.CutPrefix(arg, argument); found {
			got = append(got, strings.TrimPrefix(file, components.KeyMaterialDirectory+"/"))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s names %v, want %v", argument, got, want)
	}
}

// mountsKeys fails unless a pod mounts these files whose names begin so and no others, each by its own name.
func mountsKeys(t *testing.T, pod *corev1.PodSpec, begins string, want []string) {
	t.Helper()
	var got []string
	for _, volume := range pod.Volumes {
		if volume.Secret == nil {
			continue
		}
		for _, item := range volume.Secret.Items {
			if strings.HasPrefix(item.Key, begins) {
				if item.Key != item.Path {
					t.Errorf("%s is mounted as %s", item.Key, item.Path)
				}
				got = append(got, item.Key)
			}
		}
	}
	slices.Sort(got)
	if want = slices.Sorted(slices.Values(want)); !slices.Equal(got, want) {
		t.Errorf("it mounts %v, want %v", got, want)
	}
}
