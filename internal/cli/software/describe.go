package software

import (
	_ "embed"
	"slices"

	"k8s.io/utils/ptr"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

var (
	//go:embed assets/containerd.service
	containerdUnit string
	//go:embed assets/containerd.toml
	containerdConfig string
)

// checked is a published file whose SHA-256 is known.
type checked struct {
	published
	architecture bootstrapv1.Architecture
	sha256       string
	// witness says where the SHA-256 was published.
	witness string
}

// settings are a person's settings for the software, besides its versions.
type settings struct {
	mirrors          []bootstrapv1.SoftwareMirror
	containerdConfig string
	modules          []string
	sysctls          map[string]string
}

// describe makes the spec of a KOKSoftware from these files.
func describe(files []checked, s settings) bootstrapv1.KOKSoftwareSpec {
	spec := bootstrapv1.KOKSoftwareSpec{
		Mirrors: s.mirrors,
		Components: []bootstrapv1.SoftwareComponent{
			{Name: runc},
			{Name: plugins},
			{
				Name: containerd, After: []string{runc, plugins},
				Unit:  bootstrapv1.SoftwareUnit{Name: onworker.ContainerdUnit, Content: containerdUnit},
				Files: []bootstrapv1.SoftwareFile{{Path: "/etc/containerd/config.toml", Content: ptr.To(s.containerdConfig), Mode: "0644"}},
				Check: bootstrapv1.SoftwareCheck{Type: bootstrapv1.CheckCRI, TimeoutSeconds: 60},
			},
			{Name: balancer, Check: bootstrapv1.SoftwareCheck{Type: bootstrapv1.CheckUnit, Unit: onworker.LoadBalancerUnit, TimeoutSeconds: 60}},
			{
				Name: kubelet, After: []string{containerd},
				Check: bootstrapv1.SoftwareCheck{Type: bootstrapv1.CheckHTTP, URL: "http://127.0.0.1:10248/healthz", TimeoutSeconds: 60},
			},
		},
		Kernel: bootstrapv1.SoftwareKernel{Modules: s.modules, Sysctls: s.sysctls},
	}
	for _, file := range files {
		if file.component == installer {
			spec.Installers = append(spec.Installers, bootstrapv1.SoftwareInstaller{Architecture: file.architecture, URLs: []string{file.url}, SHA256: file.sha256})
			continue
		}
		at := slices.IndexFunc(spec.Components, func(c bootstrapv1.SoftwareComponent) bool { return c.Name == file.component })
		spec.Components[at].Variants = append(spec.Components[at].Variants, bootstrapv1.SoftwareVariant{
			Match:   bootstrapv1.SoftwareMatch{Architectures: []bootstrapv1.Architecture{file.architecture}},
			Archive: bootstrapv1.SoftwareArchive{URLs: []string{file.url}, SHA256: file.sha256, Unpack: file.unpack},
		})
	}
	return spec
}
