package cloudinit

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
)

const testToken = "abcdef.0123456789abcdef"

var supported = []string{"v1.34.1", "v1.35.4", "v1.36.3"}

// minimal is a machine with everything at its default.
func minimal(version string) Input {
	return Input{
		Version: version,
		Token:   testToken,
		Cluster: Cluster{
			CABundle:     []byte("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"),
			APIServers:   []string{"192.0.2.1:20000", "192.0.2.2:20000", "[2001:db8::3]:20000"},
			ServiceCIDRs: []string{"10.96.0.0/12"},
			PodCIDRs:     []string{"192.168.0.0/16"},
		},
	}
}

// full is a machine with everything set.
func full(version string) Input {
	in := minimal(version)
	in.Cluster.DNSDomain = "tenant.example"
	in.Cluster.KonnectivityPort = 20009
	in.Contents = map[bootstrapv1.SecretKey][]byte{{Name: "motd", Key: "text"}: []byte("welcome\n")}
	in.Spec = bootstrapv1.KOKConfigSpec{
		Format: bootstrapv1.CloudConfig,
		Kubelet: bootstrapv1.KubeletSpec{
			NodeLabels: map[string]string{"pool": "edge", "node.kubernetes.io/rack": "r1"},
			Taints:     []corev1.Taint{{Key: "dedicated", Value: "edge", Effect: corev1.TaintEffectNoSchedule}},
			ExtraArgs:  []bootstrapv1.Arg{{Name: "v", Value: ptr.To("4")}, {Name: "hostname-override", Value: ptr.To(`a "b" $c %d \e`)}},
			Configuration: bootstrapv1.KubeletConfigurationSpec{
				CgroupDriver: "systemd", MaxPods: 200, PodPidsLimit: ptr.To[int64](4096),
				EvictionHard: map[string]string{"memory.available": "100Mi"}, KubeReserved: map[string]string{"cpu": "100m"},
				SystemReserved: map[string]string{"memory": "256Mi"}, ImageGCHighThresholdPercent: ptr.To[int32](90),
				ImageGCLowThresholdPercent: ptr.To[int32](70), SerializeImagePulls: ptr.To(false), MaxParallelImagePulls: ptr.To[int32](4),
				ContainerLogMaxSize: "20Mi", ContainerLogMaxFiles: ptr.To[int32](3), FailSwapOn: ptr.To(false), ResolvConf: ptr.To(""),
				OOMScoreAdj: ptr.To[int32](0), CPUManagerPolicy: "static", TopologyManagerPolicy: "best-effort",
				ShutdownGracePeriod:             &metav1.Duration{Duration: time.Minute},
				ShutdownGracePeriodCriticalPods: &metav1.Duration{Duration: 10 * time.Second},
				FeatureGates:                    map[string]bool{"NodeSwap": true},
			},
		},
		Software: bootstrapv1.SoftwareSpec{
			Mode:         bootstrapv1.SoftwarePackages,
			Packages:     []bootstrapv1.Package{{Name: "containerd"}, {Name: "kubelet", Version: version[1:] + "-1.1"}},
			Repositories: []bootstrapv1.PackageRepository{{Name: "kubernetes", Source: "deb https://pkgs.example/deb/ /", Key: "-----BEGIN PGP PUBLIC KEY BLOCK-----\n"}},
			Downloads: []bootstrapv1.Download{{
				Path: "/usr/local/bin/kok-apiserver-lb", URLs: []string{"https://a.example/lb?v=1&x=%20", "http://b.example/lb"},
				SHA256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
			}},
		},
		RegistryMirrors: []bootstrapv1.RegistryMirror{
			{Registry: "registry.k8s.io", Exclusive: ptr.To(true), Endpoints: []bootstrapv1.RegistryEndpoint{
				{URL: "https://z.example/k8s", CABundle: "-----BEGIN CERTIFICATE-----\n", OverridePath: ptr.To(true)}, {URL: "http://a.example:5000"},
			}},
			{Registry: "_default", Endpoints: []bootstrapv1.RegistryEndpoint{{URL: "https://mirror.example"}}},
		},
		Proxy: bootstrapv1.ProxySpec{HTTP: "http://proxy.example:3128", HTTPS: "http://user:p%40ss@proxy.example:3128", No: []string{".example", "192.0.2.0/24"}},
		Files: []bootstrapv1.File{
			{Path: "/etc/plain", Content: ptr.To("#cloud-config\n{{ jinja }}\n"), Owner: "root:root", Permissions: "0600"},
			{Path: "/etc/base64", Content: ptr.To("aGVs\nbG8="), Encoding: bootstrapv1.Base64},
			{Path: "/etc/gzip", Content: ptr.To(zipped("hello")), Encoding: bootstrapv1.GzipBase64},
			{Path: "/home/admin/motd", Owner: "admin:admin", ContentFrom: &bootstrapv1.FileSource{Secret: bootstrapv1.SecretKey{Name: "motd", Key: "text"}}},
		},
		Users:               []bootstrapv1.User{{Name: "admin", Groups: []string{"sudo"}, Shell: "/bin/bash", Sudo: "ALL=(ALL) NOPASSWD:ALL", SSHAuthorizedKeys: []string{"ssh-ed25519 AAAA admin@example"}}},
		NTP:                 bootstrapv1.NTPSpec{Servers: []string{"ntp.example"}},
		PreKubeletCommands:  []string{"echo before", "modprobe overlay\nmodprobe br_netfilter"},
		PostKubeletCommands: []string{`echo "after" && true`},
	}
	return in
}

// withSoftware is a machine that a KOKSoftware describes.
func withSoftware(version string) Input {
	in := minimal(version)
	in.Spec.Software = bootstrapv1.SoftwareSpec{Mode: bootstrapv1.SoftwareDescribed, ByVersion: "software"}
	in.Software = &Software{
		Installers: []bootstrapv1.SoftwareInstaller{
			{Architecture: "amd64", SHA256: strings.Repeat("a", 64), URLs: []string{"https://releases.example/kok-software-linux-amd64"}},
			{Architecture: "arm64", SHA256: strings.Repeat("b", 64), URLs: []string{"https://releases.example/kok-software-linux-arm64", "https://other.example/arm64"}},
		},
		Document: software.Document{
			Name: "software-" + version, Version: version,
			Mirrors: []software.Mirror{{Prefix: "https://releases.example/", Endpoints: []software.Endpoint{{
				URL: "https://mirror.example/releases", CABundle: "-----BEGIN CERTIFICATE-----\n", Username: "reader", Password: "p@ss/word",
			}}}},
			Components: []bootstrapv1.SoftwareComponent{{
				Name: "kubelet", Variants: []bootstrapv1.SoftwareVariant{{
					Match: bootstrapv1.SoftwareMatch{Architectures: []bootstrapv1.Architecture{"amd64"}},
					Archive: bootstrapv1.SoftwareArchive{
						URLs: []string{"https://dl.k8s.io/release/" + version + "/bin/linux/amd64/kubelet"}, SHA256: strings.Repeat("c", 64),
						Unpack: []bootstrapv1.SoftwareUnpack{{To: "/usr/local/bin/kubelet"}},
					},
				}},
				Check: bootstrapv1.SoftwareCheck{Type: bootstrapv1.CheckHTTP, URL: "http://127.0.0.1:10248/healthz", TimeoutSeconds: 60},
			}},
			Kernel: bootstrapv1.SoftwareKernel{Modules: []string{"br_netfilter"}, Sysctls: map[string]string{"net.ipv4.ip_forward": "1"}},
		},
	}
	return in
}

func zipped(text string) string {
	var compressed bytes.Buffer
	writer := gzip.NewWriter(&compressed)
	_, _ = writer.Write([]byte(text))
	_ = writer.Close()
	return base64.StdEncoding.EncodeToString(compressed.Bytes())
}

func render(t *testing.T, in Input) []byte {
	t.Helper()
	data, err := Render(in)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// contents are the files of a document, by path, as they are on the machine.
func contents(t *testing.T, data []byte) map[string]string {
	t.Helper()
	d, err := unmarshal(data)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, file := range d.WriteFiles {
		content, err := base64.StdEncoding.DecodeString(file.Content)
		if err != nil {
			t.Fatalf("%s: %v", file.Path, err)
		}
		if _, twice := files[file.Path]; twice {
			t.Fatalf("%s is written twice", file.Path)
		}
		files[file.Path] = string(content)
	}
	return files
}
