//go:build envtest

package envtest

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
)

// kokSoftware is the smallest KOKSoftware that a person writes.
func kokSoftware(namespace string) *bootstrapv1.KOKSoftware {
	sum := strings.Repeat("0", 64)
	software := &bootstrapv1.KOKSoftware{}
	software.Namespace, software.GenerateName = namespace, "software-"
	software.Spec = bootstrapv1.KOKSoftwareSpec{
		Installers: []bootstrapv1.SoftwareInstaller{{Architecture: "amd64", URLs: []string{"https://a.example/kok-software"}, SHA256: sum}},
		Components: []bootstrapv1.SoftwareComponent{{Name: "kubelet", Variants: []bootstrapv1.SoftwareVariant{{Archive: bootstrapv1.SoftwareArchive{
			URLs: []string{"https://a.example/kubelet"}, SHA256: sum, Unpack: []bootstrapv1.SoftwareUnpack{{To: "/usr/local/bin/kubelet"}},
		}}}}},
	}
	return software
}

// TestKOKSoftware shows what the schema refuses; the rules in Go have tests of their own.
func TestKOKSoftware(t *testing.T) {
	namespace := newNamespace(t)
	for _, test := range []struct {
		name string
		edit func(*bootstrapv1.KOKSoftwareSpec)
		want []string
	}{
		{"the smallest", func(*bootstrapv1.KOKSoftwareSpec) {}, nil},
		{"a variant with nothing", func(s *bootstrapv1.KOKSoftwareSpec) {
			s.Components[0].Variants[0].Archive = bootstrapv1.SoftwareArchive{}
		}, []string{
			`spec.components[0].variants[0]: Invalid value: exactly one of archive and packages must be set`}},
		{"an archive and packages", func(s *bootstrapv1.KOKSoftwareSpec) {
			s.Components[0].Variants[0].Packages = []bootstrapv1.Package{{Name: "kubelet"}}
		}, []string{`spec.components[0].variants[0]: Invalid value: exactly one of archive and packages must be set`}},
		{"an archive from two places", func(s *bootstrapv1.KOKSoftwareSpec) { s.Components[0].Variants[0].Archive.Image = "a.example/kubelet" }, []string{
			`spec.components[0].variants[0].archive: Invalid value: exactly one of urls and image must be set`}},
		{"a component after itself", func(s *bootstrapv1.KOKSoftwareSpec) { s.Components[0].After = []string{"kubelet"} }, []string{
			`spec.components[0]: Invalid value: a component cannot come after itself`}},
		{"a check of a URL without one", func(s *bootstrapv1.KOKSoftwareSpec) {
			s.Components[0].Check = bootstrapv1.SoftwareCheck{Type: bootstrapv1.CheckHTTP}
		}, []string{`spec.components[0].check: Invalid value: url must be set when type is HTTP, and only then`}},
		{"a check of another machine", func(s *bootstrapv1.KOKSoftwareSpec) {
			s.Components[0].Check = bootstrapv1.SoftwareCheck{Type: bootstrapv1.CheckHTTP, URL: "http://169.254.169.254:80/"}
		}, []string{`spec.components[0].check.url: Invalid value: "http://169.254.169.254:80/": spec.components[0].check.url in body should match '^http://(127\.0\.0\.1|localhost|\[::1\]):[0-9]{1,5}/'`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			software := kokSoftware(namespace)
			test.edit(&software.Spec)
			expectRefusal(t, environment.Client.Create(t.Context(), software), test.want...)
		})
	}
}

func TestOfSoftwareTheMirrorsAloneChange(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*bootstrapv1.KOKSoftwareSpec)
		says string
	}{
		"mirrors": {func(s *bootstrapv1.KOKSoftwareSpec) {
			s.Mirrors = []bootstrapv1.SoftwareMirror{{Prefix: "https://a.example/", Endpoints: []bootstrapv1.SoftwareEndpoint{{URL: "https://b.example/"}}}}
		}, ""},
		"components": {func(s *bootstrapv1.KOKSoftwareSpec) {
			s.Components[0].Files = []bootstrapv1.SoftwareFile{{Path: "/etc/a", Content: ptr.To("")}}
		}, "components cannot change"},
		"installers": {func(s *bootstrapv1.KOKSoftwareSpec) { s.Installers[0].SHA256 = strings.Repeat("1", 64) }, "installers cannot change"},
		"the kernel": {func(s *bootstrapv1.KOKSoftwareSpec) { s.Kernel.Modules = []string{"overlay"} }, "kernel cannot change"},
	} {
		t.Run(name, func(t *testing.T) {
			software := kokSoftware(newNamespace(t))
			NewWithT(t).Expect(environment.Client.Create(t.Context(), software)).To(Succeed())
			test.edit(&software.Spec)
			err := environment.Client.Update(t.Context(), software)
			if test.says == "" {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				return
			}
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(test.says)))
		})
	}
}
