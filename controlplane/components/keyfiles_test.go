package components_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubecontrollermanager"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubescheduler"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/exampleproxy"
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
				if got := kubeapiserver.Component.HasKeys(components.ServiceAccountKey, having(components.ServiceAccountKey, phase), apiServer); got != same {
					t.Errorf("it is %t that an API server has the keys of %+v", got, phase)
				}
				if got := kubecontrollermanager.Component.HasKeys(components.ServiceAccountKey, having(components.ServiceAccountKey, phase), manager); got != (phase.Used == test.keys.Used) {
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
			if got := kubeapiserver.Component.HasKeys(components.EncryptionKey, having(components.EncryptionKey, phase), apiServer); got != (other == file) {
				t.Errorf("it is %t that a pod with %s has %s", got, file, other)
			}
		}
		if got := kubeapiserver.Component.HasRotatedKey(components.EncryptionKey, apiServer); got != (file != "encryption-configuration.yaml") {
			t.Errorf("it is %t that a pod with %s has a key that a rotation made", got, file)
		}
		if kubeapiserver.Component.HasRotatedKey(components.ServiceAccountKey, apiServer) {
			t.Errorf("a pod with %s has a service account key that a rotation made", file)
		}
	}
	if holders := registry.Components.Holding(components.EncryptionKey).Names(); !slices.Equal(holders, []string{names.KubeAPIServer}) {
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
		for _, component := range []components.Component{kubeapiserver.Component, kubecontrollermanager.Component, kubescheduler.Component} {
			pod := renderedPod(t, component, in)
			filesAre(t, pod, "--requestheader-client-ca-file=", []string{test.trusted})
			mountsKeys(t, pod, "front-proxy-ca", []string{test.trusted})
			for _, other := range phases {
				same := other.trusted == test.trusted && (component.Name != names.KubeAPIServer || other.leaf == test.leaf)
				if got := component.HasKeys(components.FrontProxyCA, having(components.FrontProxyCA, other.keys), pod); got != same {
					t.Errorf("it is %t that %s with %+v has %+v", got, component.Name, test.keys, other.keys)
				}
			}
			if got := component.HasRotatedKey(components.FrontProxyCA, pod); got != (test.trusted != "front-proxy-ca.crt") {
				t.Errorf("it is %t that %s with %+v has a CA that a rotation made", got, component.Name, test.keys)
			}
		}
		apiServer := renderedPod(t, kubeapiserver.Component, in)
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

// etcdPhase is a phase of a CA of etcd: which files members and API servers have of it.
type etcdPhase struct {
	keys          components.KeyFiles
	trusted, leaf string
}

// etcdPhases are all phases of a first rotation, and one of a second one.
var etcdPhases = []etcdPhase{
	{components.KeyFiles{}, "", ""},
	{components.KeyFiles{Trusted: []string{"", "0123456789"}}, "-first-0123456789", ""},
	{components.KeyFiles{Trusted: []string{"", "0123456789"}, Used: "0123456789"}, "-first-0123456789", "-0123456789"},
	{components.KeyFiles{Trusted: []string{"0123456789"}, Used: "0123456789"}, "-0123456789", "-0123456789"},
	{components.KeyFiles{Trusted: []string{"0123456789", "abcdef0123"}, Used: "0123456789"}, "-0123456789-abcdef0123", "-0123456789"},
}

// with is the part of a file's name that tells which CAs both kinds trust.
func (p etcdPhase) with(other etcdPhase) string {
	if p.trusted == "" && other.trusted == "" {
		return ""
	}
	return cmp.Or(p.trusted, "-first") + "-and" + cmp.Or(other.trusted, "-first")
}

// Members find their files under paths that stay the same. The events etcd trusts both CAs for its clients, the data etcd its own alone.
func TestPodsTrustAndShowTheCAsOfEtcdOfThePhase(t *testing.T) {
	for _, data := range etcdPhases {
		for _, events := range etcdPhases {
			in := variants["default"]()
			in.EtcdCAs, in.EtcdEventsCAs = data.keys, events.keys
			dataPod, eventsPod := renderedPod(t, etcd.Data.AsComponent(), in), renderedPod(t, etcd.Events.AsComponent(), in)
			findsCerts(t, dataPod, "blue-etcd-data", data.trusted != "", data.leaf, map[string]string{
				"ca.crt": "ca" + data.trusted + ".crt", "client-ca.crt": "client-ca" + data.trusted + ".crt",
			})
			findsCerts(t, eventsPod, "blue-etcd-events", data.trusted != "" || events.trusted != "", events.leaf, map[string]string{
				"ca.crt": "ca" + events.trusted + ".crt", "client-ca.crt": "client-ca" + events.with(data) + ".crt",
			})
			apiServer := renderedPod(t, kubeapiserver.Component, in)
			names := []string{}
			for _, file := range []struct{ argument, name string }{
				{"--etcd-cafile=", "etcd-ca" + data.with(events) + ".crt"},
				{"--etcd-certfile=", "etcd-client" + data.leaf + ".crt"}, {"--etcd-keyfile=", "etcd-client" + data.leaf + ".key"},
			} {
				directory := "/etc/kubernetes/rotated-pki/"
				if file.name == "etcd-ca.crt" || strings.HasPrefix(file.name, "etcd-client.") {
					directory = "/etc/kubernetes/pki/"
				} else {
					names = append(names, file.name)
				}
				filesAre(t, apiServer, file.argument, []string{directory + file.name})
			}
			mountsKeys(t, apiServer, "etcd-", names)

			// What tells of running pods agrees with what is rendered, of every phase and of no other.
			for _, other := range etcdPhases {
				changed := variants["default"]()
				changed.EtcdCAs, changed.EtcdEventsCAs = other.keys, events.keys
				trusts := other.trusted == data.trusted
				tellsPhase(t, components.EtcdCA, changed, dataPod, eventsPod, apiServer, trusts && other.leaf == data.leaf, trusts)
			}
		}
	}
}

// tellsPhase fails unless pods are of a phase: those that use keys, and those that trust them alone.
func tellsPhase(t *testing.T, kind *components.KeyKind, in *components.Input, data, events, apiServer *corev1.PodSpec, uses, trusts bool) {
	t.Helper()
	for component, is := range map[string]bool{
		names.EtcdData: etcd.Data.AsComponent().HasKeys(kind, in, data) == uses, names.EtcdEvents: etcd.Events.AsComponent().HasKeys(kind, in, events) == trusts,
		names.KubeAPIServer: kubeapiserver.Component.HasKeys(kind, in, apiServer) == uses,
	} {
		if !is {
			t.Errorf("of %s it is not told whether it has %+v and %+v", component, in.EtcdCAs, in.EtcdEventsCAs)
		}
	}
}

// findsCerts fails unless a member finds these files under their paths, and leaves of the CA that is in use under the paths of the others.
// kubelet starts no pod without what all members have.
func findsCerts(t *testing.T, pod *corev1.PodSpec, name string, isRotated bool, leaf string, want map[string]string) {
	t.Helper()
	i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "kok-certs" })
	if projected := pod.Volumes[i].Projected; !isRotated || projected == nil {
		if isRotated || pod.Volumes[i].Secret == nil || len(pod.Volumes[i].Secret.Items) > 0 {
			t.Errorf("%s mounts %+v", name, pod.Volumes[i])
		}
		return
	}
	for _, ending := range []string{".crt", ".key"} {
		want["peer-client"+ending] = "peer-client" + leaf + ending
		for _, member := range []string{"-0", "-6"} {
			want[name+member+ending] = name + member + leaf + ending
		}
	}
	sources, got := pod.Volumes[i].Projected.Sources, map[string]string{}
	for _, source := range sources {
		optional := ptr.Deref(source.Secret.Optional, false)
		for _, item := range source.Secret.Items {
			if source.Secret.Name != name+"-certs" || optional != strings.HasPrefix(item.Path, name) {
				t.Errorf("it is %t that %s of %s may be missing", optional, item.Key, source.Secret.Name)
			}
			if ordinal := item.Path[len(item.Path)-5]; !optional || ordinal == '0' || ordinal == '6' {
				got[item.Path] = item.Key
			}
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s finds %v, want %v", name, got, want)
	}
}

// A member beyond those that the template lists would have no certificate.
func TestAsManyMembersFindTheirCertificatesAsThereMayBe(t *testing.T) {
	raw, err := os.ReadFile("../../config/controlplane/crd/bases/controlplane.cluster.x-k8s.io_kokcontrolplanes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(raw, crd); err != nil {
		t.Fatal(err)
	}
	for field, cluster := range map[string]etcd.Cluster{"data": etcd.Data, "events": etcd.Events} {
		schema := *crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		for _, property := range []string{"spec", "etcd", field, "replicas"} {
			schema = schema.Properties[property]
		}
		in := variants["default"]()
		in.EtcdCAs.Trusted, in.EtcdEventsCAs.Trusted = []string{"0123456789"}, []string{"0123456789"}
		pod := renderedPod(t, cluster.AsComponent(), in)
		last := fmt.Sprintf("blue-%s-%d.crt", cluster.Component, int(*schema.Maximum)-1)
		if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
			return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources[1].Secret.Items, func(item corev1.KeyToPath) bool { return item.Path == last })
		}) {
			t.Errorf("no pod finds %s", last)
		}
	}
}

// A file that tells of both CAs does not tell which of them a rotation made.
func TestPodsTellWhichCAOfEtcdARotationMade(t *testing.T) {
	for _, data := range etcdPhases {
		for _, events := range etcdPhases {
			in := variants["default"]()
			in.EtcdCAs, in.EtcdEventsCAs = data.keys, events.keys
			for _, component := range []components.Component{etcd.Data.AsComponent(), etcd.Events.AsComponent(), kubeapiserver.Component} {
				pod := renderedPod(t, component, in)
				wantData := component.Name == names.EtcdData && data.trusted != "" || component.Name == names.KubeAPIServer && data.leaf != ""
				if got := component.HasRotatedKey(components.EtcdCA, pod); got != wantData {
					t.Errorf("%s with %+v and %+v: it is %t that a rotation made its CA of the data", component.Name, data.keys, events.keys, got)
				}
				if got := component.HasRotatedKey(components.EtcdEventsCA, pod); got != (component.Name == names.EtcdEvents && events.trusted != "") {
					t.Errorf("%s with %+v and %+v: it is %t that a rotation made its CA of events", component.Name, data.keys, events.keys, got)
				}
			}
		}
	}
}

// Rotations of several CAs share the volume of what they made.
func TestLeavesOfSeveralCAsAreInOneVolume(t *testing.T) {
	in := variants["default"]()
	made := components.KeyFiles{Trusted: []string{"0123456789"}, Used: "0123456789"}
	in.FrontProxyCAs, in.EtcdCAs, in.EtcdEventsCAs = made, made, made
	pod := renderedPod(t, kubeapiserver.Component, in)
	volumes, mounts := 0, 0
	for _, volume := range pod.Volumes {
		if volume.Name == "kok-rotated-certs" {
			volumes++
		}
	}
	for _, mount := range pod.Containers[0].VolumeMounts {
		if mount.MountPath == components.RotatedCertsDirectory {
			mounts++
		}
	}
	if volumes != 1 || mounts != 1 {
		t.Errorf("there are %d volumes and %d mounts", volumes, mounts)
	}
	mountsKeys(t, pod, "etcd-", []string{"etcd-ca-0123456789-and-0123456789.crt", "etcd-client-0123456789.crt", "etcd-client-0123456789.key"})
	mountsKeys(t, pod, "front-proxy-client", []string{"front-proxy-client-0123456789.crt", "front-proxy-client-0123456789.key"})
}

// A component that has a key which rotates, and that nobody knows to have it, would keep the former one.
func TestWhoeverMountsAKeyThatRotatesFollowsItsRotation(t *testing.T) {
	exampleproxy.Register(t)
	in := variants["default"]()
	made := components.KeyFiles{Trusted: []string{"0123456789"}, Used: "0123456789"}
	in.ServiceAccountKeys, in.EncryptionKeys, in.ClusterCAs, in.FrontProxyCAs, in.EtcdCAs, in.EtcdEventsCAs = made, made, made, made, made, made
	for _, component := range registry.Components {
		pod := renderedPod(t, component, in)
		for _, kind := range []*components.KeyKind{components.EtcdCA, components.EtcdEventsCA} {
			if slices.Contains(registry.Components.Holding(kind).Names(), component.Name) && !component.HasKeys(kind, in, pod) {
				t.Errorf("%s does not have the CA of etcd of its phase", component.Name)
			}
		}
		for _, volume := range pod.Volumes {
			if volume.Name != "kok-key-material" {
				continue
			}
			for _, item := range volume.Secret.Items {
				if !strings.Contains(item.Key, "0123456789") {
					t.Errorf("%s mounts %s after a rotation", component.Name, item.Key)
				}
			}
		}
	}
}

// Programs trust and show what the phase says, whether an argument or a kubeconfig names it. Every file that they read is mounted, and in the
// Secret that it is mounted from.
func TestPodsTrustAndShowTheClusterCAsOfThePhase(t *testing.T) {
	const former, made = "abcdef0123", "0123456789"
	phases := []components.KeyFiles{
		{},
		{Trusted: []string{"", made}},
		{Trusted: []string{"", made}, Used: made},
		{Trusted: []string{made}, Used: made, Shown: made},
		{Trusted: []string{made, former}, Used: made, Shown: made},
	}
	for _, files := range phases {
		in := variants["default"]()
		in.Spec.Addons.Konnectivity.Mode = controlplanev1.AddonManaged
		in.ClusterCAs = files
		trusted := pki.TrustedFile("ca.crt", files.Trusted...)
		for _, component := range []components.Component{kubeapiserver.Component, kubecontrollermanager.Component, kubescheduler.Component} {
			pod := renderedPod(t, component, in)
			filesAre(t, pod, "--client-ca-file=", []string{trusted})
			filesAre(t, pod, "--tls-cert-file=", []string{leafFile("server", files.Shown)})
			signer := []string{pki.KeyFile("ca.key", files.Used), trusted, pki.KeyFile("ca.crt", files.Used)}
			switch component.Name {
			case names.KubeAPIServer:
				filesAre(t, pod, "--kubelet-certificate-authority=", []string{trusted})
				filesAre(t, pod, "--kubelet-client-certificate=", []string{leafFile("kubelet-client", files.Used)})
				mountsKeys(t, pod, "ca", []string{trusted})
				wantKonnectivity(t, pod, files)
			case names.KubeControllerManager:
				filesAre(t, pod, "--root-ca-file=", []string{trusted})
				filesAre(t, pod, "--cluster-signing-key-file=", signer[:1])
				filesAre(t, pod, "--cluster-signing-cert-file=", signer[2:])
				slices.Sort(signer)
				mountsKeys(t, pod, "ca", slices.Compact(signer))
				fallthrough
			default:
				directory := components.CertsDirectory
				if len(files.Trusted) > 0 {
					directory = components.RotatedCertsDirectory
				}
				kubeconfig := directory + "/" + components.KubeconfigOf(files)
				if files.Used != "" {
					mountsKeys(t, pod, "client-", []string{"client-" + files.Used + ".crt", "client-" + files.Used + ".key"})
				}
				for _, argument := range []string{"--kubeconfig=", "--authentication-kubeconfig=", "--authorization-kubeconfig="} {
					filesAre(t, pod, argument, []string{kubeconfig})
				}
			}
			for _, other := range phases {
				same := other.Used == files.Used && other.Shown == files.Shown && slices.Equal(other.Trusted, files.Trusted)
				if got := component.HasKeys(components.ClusterCA, having(components.ClusterCA, other), pod); got != same {
					t.Errorf("it is %t that %s with %+v has %+v", got, component.Name, files, other)
				}
			}
			if got := component.HasRotatedKey(components.ClusterCA, pod); got != (len(files.Trusted) > 0) {
				t.Errorf("it is %t that %s with %+v has a CA that a rotation made", got, component.Name, files)
			}
		}
	}
}

// leafFile is where pods find the certificate of a leaf by the CA.
func leafFile(leaf, ca string) string {
	if ca == "" {
		return components.CertsDirectory + "/" + leaf + ".crt"
	}
	return components.RotatedCertsDirectory + "/" + leaf + "-" + ca + ".crt"
}

// wantKonnectivity fails unless konnectivity's server finds the files of the phase under the paths that it always has.
func wantKonnectivity(t *testing.T, pod *corev1.PodSpec, files components.KeyFiles) {
	t.Helper()
	want := map[string]string{
		"ca.crt":                  pki.TrustedFile("ca.crt", files.Trusted...),
		"konnectivity-server.crt": pki.KeyFile("konnectivity-server", files.Shown) + ".crt", "konnectivity-server.key": pki.KeyFile("konnectivity-server", files.Shown) + ".key",
		"konnectivity-client.crt": pki.KeyFile("konnectivity-client", files.Used) + ".crt", "konnectivity-client.key": pki.KeyFile("konnectivity-client", files.Used) + ".key",
		"konnectivity.kubeconfig": "konnectivity.kubeconfig",
	}
	got := map[string]string{}
	for _, volume := range pod.Volumes {
		if volume.Name != "kok-konnectivity-pki" {
			continue
		}
		for _, source := range volume.Projected.Sources {
			for _, item := range source.Secret.Items {
				got[item.Path] = item.Key
			}
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("konnectivity's server with %+v finds %v, want %v", files, got, want)
	}
}

// A kubelet whose certificate is by nobody whom the cluster CA vouches for is verified by what the user says.
func TestTheCAOfKubeletsThatAUserGivesStays(t *testing.T) {
	for _, files := range []components.KeyFiles{{}, {Trusted: []string{"", "0123456789"}}} {
		in := having(components.ClusterCA, files)
		in.Spec.KubeAPIServer.ExtraArgs = []controlplanev1.Arg{{Name: "kubelet-certificate-authority", Value: ptr.To("/own/ca.crt")}}
		pod := renderedPod(t, kubeapiserver.Component, in)
		filesAre(t, pod, "--kubelet-certificate-authority=", []string{"/own/ca.crt"})
		if !kubeapiserver.Component.HasKeys(components.ClusterCA, having(components.ClusterCA, files), pod) {
			t.Errorf("with %+v it does not have the CAs of its phase", files)
		}
	}
}

// having is the input of a tenant whose keys of a kind are in a phase.
func having(kind *components.KeyKind, files components.KeyFiles) *components.Input {
	in := variants["default"]()
	*kind.In(in) = files
	return in
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
