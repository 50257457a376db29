package webhooks

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
)

// described is software that every rule allows.
func described() *bootstrapv1.KOKSoftware {
	archive := func(to, from string) []bootstrapv1.SoftwareVariant {
		return []bootstrapv1.SoftwareVariant{{Archive: bootstrapv1.SoftwareArchive{
			URLs: []string{"https://a.example/file"}, SHA256: strings.Repeat("0", 64), Unpack: []bootstrapv1.SoftwareUnpack{{From: from, To: to}},
		}}}
	}
	software := &bootstrapv1.KOKSoftware{}
	software.Spec = bootstrapv1.KOKSoftwareSpec{
		Installers: []bootstrapv1.SoftwareInstaller{{Architecture: "amd64", URLs: []string{"https://a.example/kok-software"}, SHA256: strings.Repeat("0", 64)}},
		Mirrors: []bootstrapv1.SoftwareMirror{
			{Prefix: "https://a.example/", Endpoints: []bootstrapv1.SoftwareEndpoint{{URL: "https://b.example/a"}}},
			{Prefix: "registry.example/", Endpoints: []bootstrapv1.SoftwareEndpoint{{URL: "mirror.example:5000"}}},
		},
		Components: []bootstrapv1.SoftwareComponent{
			{Name: "containerd", Variants: archive("/usr/local/bin/", "bin/"), Unit: bootstrapv1.SoftwareUnit{Name: "containerd.service"},
				Files: []bootstrapv1.SoftwareFile{{Path: "/etc/containerd/config.toml", Content: ptr.To("version = 3\n")}}},
			{Name: "kubelet", After: []string{"containerd"}, Variants: append(archive("/usr/local/bin/kubelet", ""), archive("/usr/local/bin/kubelet", "")...)},
		},
	}
	return software
}

func TestSoftwareThatNoMachineCouldInstallIsRefused(t *testing.T) {
	for _, test := range []struct {
		name string
		edit func(*bootstrapv1.KOKSoftwareSpec)
		want []string
	}{
		{"software", func(*bootstrapv1.KOKSoftwareSpec) {}, nil},
		{"two components in one folder", func(s *bootstrapv1.KOKSoftwareSpec) {
			s.Components[1].Variants[0].Archive.Unpack = []bootstrapv1.SoftwareUnpack{{From: "./", To: "/usr/local/bin/"}}
		}, nil},
		{"a path that the program keeps", func(s *bootstrapv1.KOKSoftwareSpec) { s.Components[0].Files[0].Path = "/proc/sys/kernel/panic" }, []string{
			`spec: Invalid value: component containerd: files[0]: path: /proc/sys/kernel/panic belongs to others; choose another`}},
		{"a sysctl of two lines", func(s *bootstrapv1.KOKSoftwareSpec) {
			s.Kernel.Sysctls = map[string]string{"net.ipv4.ip_forward": "1\na"}
		}, []string{
			`spec: Invalid value: kernel.sysctls: the value of net.ipv4.ip_forward must be one line of printable text`}},
		{"an installer by FTP", func(s *bootstrapv1.KOKSoftwareSpec) { s.Installers[0].URLs[0] = "ftp://a.example" }, []string{
			`spec.installers[0].urls[0]: Invalid value: "ftp://a.example": must be a URL that starts with https:// or http://`}},
		{"a mirror without a scheme", func(s *bootstrapv1.KOKSoftwareSpec) { s.Mirrors[0].Endpoints[0].URL = "b.example" }, []string{
			`spec.mirrors[0].endpoints[0].url: Invalid value: "b.example": must be a URL that starts with https:// or http://`}},
		{"a registry with a scheme", func(s *bootstrapv1.KOKSoftwareSpec) { s.Mirrors[1].Endpoints[0].URL = "https://mirror.example" }, []string{
			`spec.mirrors[1].endpoints[0].url: Invalid value: "https://mirror.example": must be the address of a registry, without https://, because prefix is the beginning of a reference of an image`}},
		{"an archive by FTP", func(s *bootstrapv1.KOKSoftwareSpec) { s.Components[1].Variants[1].Archive.URLs[0] = "ftp://a.example" }, []string{
			`spec.components[1].variants[1].archive.urls[0]: Invalid value: "ftp://a.example": must be a URL that starts with https:// or http://`}},
		{"a component after one that is not there", func(s *bootstrapv1.KOKSoftwareSpec) { s.Components[1].After[0] = "runc" }, []string{
			`spec.components[1].after[0]: Not found: "runc"`}},
		{"components that wait for each other", func(s *bootstrapv1.KOKSoftwareSpec) { s.Components[0].After = []string{"kubelet"} }, []string{
			`spec.components[0].after: Invalid value: ["kubelet"]: leads in a circle: the component would wait for itself`,
			`spec.components[1].after: Invalid value: ["containerd"]: leads in a circle: the component would wait for itself`}},
		{"the unit of kubelet", func(s *bootstrapv1.KOKSoftwareSpec) { s.Components[1].Unit.Name = "kubelet.service" }, []string{
			`spec.components[1].unit.name: Invalid value: "kubelet.service": comes with the bootstrap data; remove unit`}},
		{"a file of the controller", func(s *bootstrapv1.KOKSoftwareSpec) { s.Components[0].Files[0].Path = "/etc/kok/software.json" }, []string{
			`spec.components[0].files[0].path: Invalid value: "/etc/kok/software.json": belongs to the controller; choose another`}},
		{"a file of two components", func(s *bootstrapv1.KOKSoftwareSpec) {
			s.Components[1].Files = []bootstrapv1.SoftwareFile{{Path: "/etc/containerd/config.toml"}}
		}, []string{`spec.components[1].files[0].path: Invalid value: "/etc/containerd/config.toml": belongs to the component containerd, too; a file can come from one component alone`}},
		{"a file that is there twice", func(s *bootstrapv1.KOKSoftwareSpec) {
			s.Components[0].Variants[0].Archive.Unpack = append(s.Components[0].Variants[0].Archive.Unpack, bootstrapv1.SoftwareUnpack{To: "/etc/containerd/config.toml"})
		}, []string{`spec.components[0].variants[0].archive.unpack[1].to: Duplicate value: "/etc/containerd/config.toml"`}},
		{"a folder that goes to a file", func(s *bootstrapv1.KOKSoftwareSpec) {
			s.Components[0].Variants[0].Archive.Unpack[0].To = "/usr/local/bin/containerd"
		}, []string{`spec.components[0].variants[0].archive.unpack[0].to: Invalid value: "/usr/local/bin/containerd": must end in a slash when from does, and only then: a folder goes to a folder`}},
		{"a path that leads elsewhere", func(s *bootstrapv1.KOKSoftwareSpec) {
			s.Components[1].Variants = s.Components[1].Variants[:1]
			s.Components[1].Variants[0].Archive.Unpack[0].To = "/usr/../etc/passwd"
		}, []string{`spec.components[1].variants[0].archive.unpack[0].to: Invalid value: "/usr/../etc/passwd": must be an absolute path of a file, without . and .. and double slashes`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			software := described()
			test.edit(&software.Spec)
			_, err := (&KOKSoftware{}).ValidateCreate(t.Context(), software)
			if diff := cmp.Diff(test.want, causes(t, err)); diff != "" {
				t.Error(diff)
			}
			_, err = (&KOKSoftware{}).ValidateUpdate(t.Context(), &bootstrapv1.KOKSoftware{}, software)
			if diff := cmp.Diff(test.want, causes(t, err)); diff != "" {
				t.Errorf("an update: %s", diff)
			}
		})
	}
}

func TestOldSoftwareCanBeLabelledUnderNewRules(t *testing.T) {
	before := described()
	before.Spec.Installers[0].URLs[0] = "ftp://a.example"
	after := before.DeepCopy()
	after.Labels = map[string]string{"a": "b"}
	if _, err := (&KOKSoftware{}).ValidateUpdate(t.Context(), before, after); err != nil {
		t.Errorf("a label was refused: %v", err)
	}
	after.Spec.Mirrors = nil
	after.DeletionTimestamp = ptr.To(metav1.Now())
	if _, err := (&KOKSoftware{}).ValidateUpdate(t.Context(), before, after); err != nil {
		t.Errorf("a change while it is deleted was refused: %v", err)
	}
}
