package mirror

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
)

// ContainerdConfig is containerd's configuration on hosts of the lab.
//
//go:embed files/containerd.toml
var ContainerdConfig string

//go:embed files/containerd.service
var containerdUnit string

// Servers of upstream that the mirror stands for, and folders of programs on machines.
const (
	kubernetesServer = "https://dl.k8s.io/"
	releasesServer   = "https://github.com/"
	programs         = "/usr/local/bin/"
)

// Names of components.
const (
	Runc       = "runc"
	CNIPlugins = "cni-plugins"
	Containerd = "containerd"
	Balancer   = balancer
	Kubelet    = "kubelet"
)

// maxFile bounds what is read of one file.
const maxFile = 1 << 30

// Software describes what makes a host of the lab a worker of a Kubernetes version, by upstream's URLs, for which this mirror
// and then others are asked. Its digests are those of the files that this mirror serves. The object is called
// <prefix>-<version>, for byVersion.
func (m *Mirror) Software(ctx context.Context, namespace, prefix, version string, others ...*Mirror) (*bootstrapv1.KOKSoftware, error) {
	return m.software(ctx, namespace, prefix, version, m.components(version), others...)
}

// software is Software with some components, whose archives get their digests.
func (m *Mirror) software(ctx context.Context, namespace, prefix, version string, components []bootstrapv1.SoftwareComponent, others ...*Mirror) (*bootstrapv1.KOKSoftware, error) {
	s := &bootstrapv1.KOKSoftware{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: prefix + "-" + version}}
	s.Spec.Mirrors = endpoints(append([]*Mirror{m}, others...))
	// /sys/fs/cgroup, /proc/sys/vm and the like are the machine's, and no host's: what is set is of the host's own network.
	s.Spec.Kernel = bootstrapv1.SoftwareKernel{Modules: []string{"overlay"}, Sysctls: map[string]string{"net.ipv4.ip_forward": "1"}}
	program := m.releaseURL(installer)
	digest, err := m.digest(ctx, program)
	if err != nil {
		return nil, err
	}
	s.Spec.Installers = []bootstrapv1.SoftwareInstaller{{Architecture: "amd64", URLs: []string{program}, SHA256: digest}}
	for _, c := range components {
		for i := range c.Variants {
			if archive := &c.Variants[i].Archive; len(archive.URLs) > 0 {
				if archive.SHA256, err = m.digest(ctx, archive.URLs[0]); err != nil {
					return nil, err
				}
			}
		}
		s.Spec.Components = append(s.Spec.Components, c)
	}
	return s, nil
}

// endpoints are mirrors in the order in which they are asked.
func endpoints(mirrors []*Mirror) []bootstrapv1.SoftwareMirror {
	var all []bootstrapv1.SoftwareMirror
	for _, server := range []string{kubernetesServer, releasesServer} {
		of := bootstrapv1.SoftwareMirror{Prefix: server, Exclusive: ptr.To(true)}
		for _, m := range mirrors {
			of.Endpoints = append(of.Endpoints, bootstrapv1.SoftwareEndpoint{URL: m.at(server), CABundle: m.CABundle})
		}
		all = append(all, of)
	}
	return all
}

// at is where the mirror has what a server of upstream has.
func (m *Mirror) at(url string) string { return m.URL + "/" + strings.TrimPrefix(url, "https://") }

// PathOf is where the mirror has a file of upstream, as Misbehave wants it.
func PathOf(url string) string { return "/" + strings.TrimPrefix(url, "https://") }

// KubeletURL is where upstream has the kubelet of a Kubernetes version.
func KubeletURL(version string) string {
	return kubernetesServer + "release/" + version + "/bin/linux/amd64/kubelet"
}

// get asks the mirror for what it has for a URL of upstream.
func (m *Mirror) get(ctx context.Context, url string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.at(url), nil)
	if err != nil {
		return nil, err
	}
	answer, err := m.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("read %s from the mirror: %w", url, err)
	}
	if answer.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("read %s from the mirror: %s", url, answer.Status), answer.Body.Close())
	}
	return answer.Body, nil
}

// digest is the SHA-256 of what the mirror has for a URL of upstream.
func (m *Mirror) digest(ctx context.Context, url string) (string, error) {
	file, err := m.get(ctx, url)
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // only read
	hash := sha256.New()
	if _, err := io.Copy(hash, io.LimitReader(file, maxFile)); err != nil {
		return "", fmt.Errorf("read %s from the mirror: %w", url, err)
	}
	return fmt.Sprintf("%x", hash.Sum(nil)), nil
}

// releaseURL is where this project's release has a program.
func (m *Mirror) releaseURL(program string) string {
	return "https://" + releasePath(m.content.ReleaseVersion) + releaseName(program)
}

// components are those of a worker, without the digests of their archives.
func (m *Mirror) components(version string) []bootstrapv1.SoftwareComponent {
	u := m.content.Upstream
	return []bootstrapv1.SoftwareComponent{
		{
			Name:     Runc,
			Variants: variant(releasesServer+"opencontainers/runc/releases/download/"+u.Runc+"/runc.amd64", bootstrapv1.SoftwareUnpack{To: programs + "runc"}),
		}, {
			Name: CNIPlugins,
			Variants: variant(fmt.Sprintf("%scontainernetworking/plugins/releases/download/%[2]s/cni-plugins-linux-amd64-%[2]s.tgz", releasesServer, u.CNIPlugins),
				bootstrapv1.SoftwareUnpack{From: "./", To: "/usr/lib/cni/"}),
		}, {
			Name: Containerd, After: []string{Runc, CNIPlugins},
			Variants: variant(fmt.Sprintf("%scontainerd/containerd/releases/download/%s/containerd-%s-linux-amd64.tar.gz", releasesServer, u.Containerd, strings.TrimPrefix(u.Containerd, "v")),
				bootstrapv1.SoftwareUnpack{From: "bin/", To: programs}),
			Unit:  bootstrapv1.SoftwareUnit{Name: "containerd.service", Content: containerdUnit},
			Files: []bootstrapv1.SoftwareFile{{Path: "/etc/containerd/config.toml", Content: ptr.To(ContainerdConfig), Mode: "0644"}},
			Check: bootstrapv1.SoftwareCheck{Type: bootstrapv1.CheckCRI, TimeoutSeconds: 60},
		}, {
			Name: Balancer, Variants: m.balancers(),
			Check: bootstrapv1.SoftwareCheck{Type: bootstrapv1.CheckUnit, Unit: balancer + ".service", TimeoutSeconds: 60},
		}, {
			Name: Kubelet, After: []string{Containerd},
			Variants: variant(KubeletURL(version), bootstrapv1.SoftwareUnpack{To: programs + "kubelet"}),
			Check:    bootstrapv1.SoftwareCheck{Type: bootstrapv1.CheckHTTP, URL: "http://127.0.0.1:10248/healthz", TimeoutSeconds: 60},
		},
	}
}

// debian is what all bare hosts of the lab are, and debian12 or debian13 some.
var (
	debian   = bootstrapv1.SoftwareMatch{OS: []string{"debian"}, OSVersions: []string{"12", "13"}, Architectures: []bootstrapv1.Architecture{"amd64"}}
	debian12 = bootstrapv1.SoftwareMatch{OS: []string{"debian"}, OSVersions: []string{"12"}, Architectures: []bootstrapv1.Architecture{"amd64"}}
	debian13 = bootstrapv1.SoftwareMatch{OS: []string{"debian"}, OSVersions: []string{"13"}, Architectures: []bootstrapv1.Architecture{"amd64"}}
)

func variant(url string, unpack bootstrapv1.SoftwareUnpack) []bootstrapv1.SoftwareVariant {
	return []bootstrapv1.SoftwareVariant{{
		Match:   debian,
		Archive: bootstrapv1.SoftwareArchive{URLs: []string{url}, Unpack: []bootstrapv1.SoftwareUnpack{unpack}},
	}}
}

// balancers are a package of apt for Debian 12, where there is a repository, and the program for all others.
func (m *Mirror) balancers() []bootstrapv1.SoftwareVariant {
	variants := variant(m.releaseURL(balancer), bootstrapv1.SoftwareUnpack{To: programs + balancer})
	if m.content.Repository == nil {
		return variants
	}
	return append([]bootstrapv1.SoftwareVariant{{
		Match: debian12,
		// nfpm numbers packages of one version.
		Packages:     []bootstrapv1.Package{{Name: balancer, Version: strings.TrimPrefix(m.content.ReleaseVersion, "v") + "-1"}},
		Repositories: []bootstrapv1.PackageRepository{{Name: "lab", Source: m.Source(), Key: m.content.Repository.Key}},
	}}, variants...)
}
