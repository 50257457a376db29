//go:build envtest

package envtest

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
)

type configSpec = bootstrapv1.KOKConfigSpec

// TestKOKConfig shows what the schema refuses; the rules in Go have tests of their own.
func TestKOKConfig(t *testing.T) {
	download := []bootstrapv1.Download{{Path: "/usr/bin/a", URLs: []string{"https://a.example"}, SHA256: strings.Repeat("0", 64)}}
	packages := []bootstrapv1.Package{{Name: "kubelet", Version: "1.36.3-1.1"}}
	configuration := func(edit func(*bootstrapv1.KubeletConfigurationSpec)) func(*configSpec) {
		return func(s *configSpec) { edit(&s.Kubelet.Configuration) }
	}
	cases := []struct {
		name string
		edit func(*configSpec)
		want []string
	}{
		{"empty", func(*configSpec) {}, nil},
		{"another format", func(s *configSpec) { s.Format = "ignition" }, []string{
			`spec.format: Unsupported value: "ignition": supported values: "cloud-config"`, unchecked}},

		{"packages", func(s *configSpec) {
			s.Software = bootstrapv1.SoftwareSpec{Mode: bootstrapv1.SoftwarePackages, Packages: packages, Downloads: download}
		}, nil},
		{"downloads", func(s *configSpec) {
			s.Software = bootstrapv1.SoftwareSpec{Mode: bootstrapv1.SoftwareURLs, Downloads: download}
		}, nil},
		{"packages of preinstalled software", func(s *configSpec) { s.Software.Packages = packages }, []string{
			`spec.software: Invalid value: packages must be set when mode is Packages, and only then`}},
		{"no packages", func(s *configSpec) { s.Software.Mode = bootstrapv1.SoftwarePackages }, []string{
			`spec.software: Invalid value: packages must be set when mode is Packages, and only then`}},
		{"downloads of preinstalled software", func(s *configSpec) { s.Software.Downloads = download }, []string{
			`spec.software: Invalid value: downloads must be unset when mode is Preinstalled; set mode to URLs, or to Packages for both`}},
		{"no downloads", func(s *configSpec) { s.Software.Mode = bootstrapv1.SoftwareURLs }, []string{
			`spec.software: Invalid value: downloads must be set when mode is URLs`}},
		{"repositories of preinstalled software", func(s *configSpec) {
			s.Software.Repositories = []bootstrapv1.PackageRepository{{Name: "a", Source: "deb https://a.example/ /"}}
		}, []string{`spec.software: Invalid value: repositories must be unset unless mode is Packages`}},

		{"software by the version", func(s *configSpec) {
			s.Software = bootstrapv1.SoftwareSpec{Mode: bootstrapv1.SoftwareDescribed, ByVersion: "software"}
		}, nil},
		{"software without a name", func(s *configSpec) { s.Software.Mode = bootstrapv1.SoftwareDescribed }, nil},
		{"software with two names", func(s *configSpec) {
			s.Software = bootstrapv1.SoftwareSpec{Mode: bootstrapv1.SoftwareDescribed, ByVersion: "software", Ref: bootstrapv1.SoftwareReference{Name: "software-2"}}
		}, []string{`spec.software: Invalid value: ref and byVersion both name a KOKSoftware: remove one of them`}},
		{"the name of software that is preinstalled", func(s *configSpec) { s.Software.ByVersion = "software" }, []string{
			`spec.software: Invalid value: ref and byVersion must be unset unless mode is KOKSoftware`}},

		{"a file without content", func(s *configSpec) { s.Files = []bootstrapv1.File{{Path: "/etc/a"}} }, []string{
			`spec.files[0]: Invalid value: exactly one of content and contentFrom must be set`}},
		{"a file with two contents", func(s *configSpec) {
			s.Files = []bootstrapv1.File{{Path: "/etc/a", Content: ptr.To(""), ContentFrom: &bootstrapv1.FileSource{Secret: bootstrapv1.SecretKey{Name: "a", Key: "b"}}}}
		}, []string{`spec.files[0]: Invalid value: exactly one of content and contentFrom must be set`}},
		{"an empty file", func(s *configSpec) { s.Files = []bootstrapv1.File{{Path: "/etc/a", Content: ptr.To("")}} }, nil},

		{"image thresholds", configuration(func(c *bootstrapv1.KubeletConfigurationSpec) {
			c.ImageGCHighThresholdPercent, c.ImageGCLowThresholdPercent = ptr.To[int32](100), ptr.To[int32](90)
		}), nil},
		{"a low threshold above the default of the high one", configuration(func(c *bootstrapv1.KubeletConfigurationSpec) {
			c.ImageGCLowThresholdPercent = ptr.To[int32](90)
		}), []string{`spec.kubelet.configuration: Invalid value: imageGCLowThresholdPercent must be less than imageGCHighThresholdPercent, which is 85 when unset`}},
		{"a high threshold below the default of the low one", configuration(func(c *bootstrapv1.KubeletConfigurationSpec) {
			c.ImageGCHighThresholdPercent = ptr.To[int32](80)
		}), []string{`spec.kubelet.configuration: Invalid value: imageGCHighThresholdPercent must be more than imageGCLowThresholdPercent, which is 80 when unset`}},
		{"parallel pulls that are serial", configuration(func(c *bootstrapv1.KubeletConfigurationSpec) {
			c.MaxParallelImagePulls = ptr.To[int32](4)
		}), []string{`spec.kubelet.configuration: Invalid value: maxParallelImagePulls above 1 needs serializeImagePulls to be false`}},
		{"a part of no shutdown", configuration(func(c *bootstrapv1.KubeletConfigurationSpec) {
			c.ShutdownGracePeriodCriticalPods = &metav1.Duration{Duration: 1}
		}), []string{`spec.kubelet.configuration: Invalid value: shutdownGracePeriodCriticalPods is a part of shutdownGracePeriod: set that too`}},

		{"a rule in Go", func(s *configSpec) { s.NTP.Servers = []string{"a b"} }, []string{
			`spec.ntp.servers[0]: Invalid value: "a b": must be a DNS name or an IP address`}},
	}
	namespace := newNamespace(t)
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			config := &bootstrapv1.KOKConfig{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "config-"}}
			tc.edit(&config.Spec)
			expectRefusal(t, environment.Client.Create(t.Context(), config), tc.want...)

			template := &bootstrapv1.KOKConfigTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "template-"}}
			tc.edit(&template.Spec.Template.Spec)
			template.Spec.Template.ObjectMeta.Labels = map[string]string{"a": "b"}
			want := make([]string, 0, len(tc.want))
			for _, cause := range tc.want {
				want = append(want, strings.Replace(cause, "spec.", "spec.template.spec.", 1))
			}
			expectRefusal(t, environment.Client.Create(t.Context(), template), want...)
		})
	}
}

func TestDefaultsOfAnEmptyKOKConfig(t *testing.T) {
	g := NewWithT(t)
	config := &bootstrapv1.KOKConfig{ObjectMeta: metav1.ObjectMeta{Namespace: newNamespace(t), Name: "worker"}}
	config.Spec.Files = []bootstrapv1.File{{Path: "/etc/a", Content: ptr.To("")}}
	g.Expect(environment.Client.Create(t.Context(), config)).To(Succeed())
	stored := &bootstrapv1.KOKConfig{}
	g.Expect(environment.Client.Get(t.Context(), client.ObjectKeyFromObject(config), stored)).To(Succeed())
	g.Expect(stored.Spec).To(BeComparableTo(configSpec{
		Format:   bootstrapv1.CloudConfig,
		Software: bootstrapv1.SoftwareSpec{Mode: bootstrapv1.SoftwarePreinstalled},
		Files:    []bootstrapv1.File{{Path: "/etc/a", Content: ptr.To(""), Owner: "root:root", Permissions: "0644"}},
	}))
}

func TestKOKConfigTemplateIsImmutable(t *testing.T) {
	g := NewWithT(t)
	template := &bootstrapv1.KOKConfigTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: newNamespace(t), Name: "workers"}}
	template.Spec.Template.Spec.PreKubeletCommands = []string{"true"}
	g.Expect(environment.Client.Create(t.Context(), template)).To(Succeed())
	template.Labels = map[string]string{"a": "b"}
	g.Expect(environment.Client.Update(t.Context(), template)).To(Succeed())
	template.Spec.Template.Spec.PreKubeletCommands = []string{"false"}
	expectRefusal(t, environment.Client.Update(t.Context(), template),
		`spec.template.spec: Invalid value: is immutable; create a new KOKConfigTemplate and name it in the MachineDeployment or the ClusterClass`)
}
