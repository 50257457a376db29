package artifacts

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// Versions pins what the lab is built from. Kubernetes and module versions carry a leading v.
type Versions struct {
	// Host is the Kubernetes version of the host cluster.
	Host string
	// Tenants are the Kubernetes versions that hosts have images of tenants' control planes of.
	Tenants []string
	// Etcd is the version of etcd of the host cluster and of tenants.
	Etcd string
	// FormerEtcd is the version of etcd that a tenant is upgraded from: the newest that can be had of the minor before. Of an older
	// one than v3.5.26, members that were removed may come back: https://github.com/etcd-io/etcd/issues/20967.
	FormerEtcd string
	// ClusterAPI is the version of Cluster API's core manager and of clusterctl.
	ClusterAPI string
	// CertManager is the version of cert-manager's controllers, custom resource definitions and manifests.
	CertManager string
	// Kustomize is the version of the kustomize program.
	Kustomize string
	// CoreDNS is the version of tenants' DNS server.
	CoreDNS string
	// Flannel is the version of tenants' pod network, FlannelPlugin that of the module with its CNI plugin.
	Flannel, FlannelPlugin string
	// Konnectivity is the version of the server beside tenants' API servers and of the agent on their workers.
	Konnectivity string
	// MetalLB is the version of the load balancer that a host cluster may have, MetricsServer that of the source of metrics.
	MetalLB, MetricsServer string
	// Registry is the version of the container registry that a spec pushes a release to.
	Registry string
	// Containerd, Runc and CNIPlugins are the versions that a mirror has for machines that install themselves.
	Containerd, Runc, CNIPlugins string
	// Debian is the suite that hosts run.
	Debian string
}

// DefaultVersions returns the versions that the project is tested with.
func DefaultVersions() Versions {
	return Versions{
		Host:          "v1.36.3",
		Tenants:       []string{"v1.35.4", "v1.36.3"},
		Etcd:          "v3.6.8",
		FormerEtcd:    "v3.5.35",
		ClusterAPI:    "v1.14.2",
		CertManager:   "v1.21.2",
		Kustomize:     "v5.8.2",
		CoreDNS:       "v1.14.2",
		Flannel:       "v0.28.4",
		FlannelPlugin: "v0.9.1",
		Konnectivity:  "v0.34.0",
		MetalLB:       "v0.15.2",
		MetricsServer: "v0.9.0",
		Registry:      "v3.1.2",
		Containerd:    "v2.4.2",
		Runc:          "v1.5.2",
		CNIPlugins:    "v1.9.1",
		Debian:        "bookworm",
	}
}

// HostVersions are the Kubernetes versions that the lab's host cluster may have, the newest last: one of each minor that
// a host cluster is supported with.
func HostVersions() []string { return append(OlderVersions(), DefaultVersions().Host) }

// VersionsOn returns the default versions with a host cluster of another Kubernetes version; empty is the newest.
func VersionsOn(host string) (Versions, error) {
	v := DefaultVersions()
	if host == "" {
		return v, nil
	}
	if all := HostVersions(); !slices.Contains(all, host) {
		return v, fmt.Errorf("the lab has no host cluster of Kubernetes %q: choose one of %s", host, strings.Join(all, ", "))
	}
	v.Host = host
	return v, nil
}

// EtcdImageTag is the tag of the etcd image: Kubernetes' own etcd images carry a build number after the version.
func (v Versions) EtcdImageTag() string { return strings.TrimPrefix(v.Etcd, "v") + "-0" }

// FormerEtcdImage is the image of FormerEtcd, which hosts get only where it is asked for.
func (v Versions) FormerEtcdImage() string {
	return "registry.k8s.io/etcd:" + strings.TrimPrefix(v.FormerEtcd, "v") + "-0"
}

// stagingVersion is the version of the k8s.io libraries that a Kubernetes release v1.x.y is made with: v0.x.y.
func stagingVersion(kubernetes string) (string, error) {
	if !semver.IsValid(kubernetes) || semver.Major(kubernetes) != "v1" {
		return "", fmt.Errorf("kubernetes version %q is not of the form v1.x.y", kubernetes)
	}
	return "v0" + strings.TrimPrefix(kubernetes, "v1"), nil
}

// minor returns the second number of a version: "36" of v1.36.3.
func minor(version string) string {
	return strings.TrimPrefix(semver.MajorMinor(version), semver.Major(version)+".")
}

// CacheDir returns the folder that artifacts are kept in: $KOK_CACHE, else kok in the user's cache folder.
func CacheDir() (string, error) {
	if dir := os.Getenv("KOK_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder (set KOK_CACHE to choose one): %w", err)
	}
	return filepath.Join(base, "kok"), nil
}
