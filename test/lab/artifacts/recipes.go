package artifacts

import (
	"path"
	"strings"

	"golang.org/x/mod/semver"
)

// stampDate stands for the build date in stamped versions: a real one would make every build differ.
const stampDate = "2026-01-01T00:00:00Z"

// stamps sets the variables that Kubernetes' and Cluster API's version packages share. Unstamped programs say v0.0.0,
// which clusterctl and kubelet refuse.
func stamps(pkg, version string) []string {
	return []string{
		pkg + ".gitVersion=" + version,
		pkg + ".gitMajor=" + strings.TrimPrefix(semver.Major(version), "v"),
		pkg + ".gitMinor=" + minor(version),
		pkg + ".gitTreeState=clean",
		pkg + ".buildDate=" + stampDate,
		pkg + ".gitCommit=" + strings.Repeat("0", 40),
	}
}

// kubernetesRecipe builds commands of Kubernetes' own repository.
func kubernetesRecipe(version string, commands ...string) (recipe, error) {
	staging, err := stagingVersion(version)
	if err != nil {
		return recipe{}, err
	}
	r := recipe{
		name: "kubernetes", module: "k8s.io/kubernetes", version: version,
		local:  func(string) (string, error) { return staging, nil },
		stamps: append(stamps("k8s.io/component-base/version", version), stamps("k8s.io/client-go/pkg/version", version)...),
	}
	for _, c := range commands {
		r.programs = append(r.programs, program{name: c, pkg: "k8s.io/kubernetes/cmd/" + c})
	}
	return r, nil
}

func etcdRecipe(version string) recipe {
	return recipe{
		name: "etcd", module: "go.etcd.io/etcd/server/v3", version: version,
		also: []string{"go.etcd.io/etcd/etcdctl/v3", "go.etcd.io/etcd/etcdutl/v3"},
		local: func(path string) (string, error) {
			// The rest are names that etcd forbids itself to import.
			if strings.HasPrefix(path, "go.etcd.io/etcd/") {
				return version, nil
			}
			return "", nil
		},
		stamps: []string{"go.etcd.io/etcd/api/v3/version.GitSHA=" + version},
		programs: []program{
			{name: "etcd", pkg: "go.etcd.io/etcd/server/v3"},
			{name: "etcdctl", pkg: "go.etcd.io/etcd/etcdctl/v3"},
			{name: "etcdutl", pkg: "go.etcd.io/etcd/etcdutl/v3"},
		},
	}
}

const clusterAPIProgram = "cluster-api-controller"

func clusterAPIRecipe(version string) recipe {
	return recipe{
		name: "cluster-api", module: "sigs.k8s.io/cluster-api", version: version,
		local:  func(string) (string, error) { return version, nil },
		stamps: stamps("sigs.k8s.io/cluster-api/version", version),
		tags:   "fieldsv1string",
		programs: []program{
			{name: clusterAPIProgram, pkg: "sigs.k8s.io/cluster-api/core"},
			{name: "clusterctl", pkg: "sigs.k8s.io/cluster-api/cmd/clusterctl"},
		},
	}
}

func kustomizeRecipe(version string) recipe {
	return recipe{
		name: "kustomize", module: "sigs.k8s.io/kustomize/kustomize/v5", version: version,
		local:    func(string) (string, error) { return "", nil },
		stamps:   []string{"sigs.k8s.io/kustomize/api/provenance.version=" + version, "sigs.k8s.io/kustomize/api/provenance.buildDate=" + stampDate},
		programs: []program{{name: "kustomize", pkg: "sigs.k8s.io/kustomize/kustomize/v5"}},
	}
}

func coreDNSRecipe(version string) recipe {
	return recipe{
		name: "coredns", module: "github.com/coredns/coredns", version: version,
		local:    func(string) (string, error) { return "", nil },
		programs: []program{{name: "coredns", pkg: "github.com/coredns/coredns"}},
	}
}

func flannelRecipe(version string) recipe {
	return recipe{
		name: "flannel", module: flannelModule, version: version,
		local:  func(string) (string, error) { return "", nil },
		stamps: []string{flannelModule + "/pkg/version.Version=" + version},
		// The version that upstream pins was withdrawn.
		newer: map[string]string{"github.com/tencentcloud/tencentcloud-sdk-go/tencentcloud/common": "v1.3.82"},
		// Its UDP backend is written in C.
		cgo: true, tags: "netgo,osusergo",
		programs: []program{{name: "flanneld", pkg: flannelModule}},
	}
}

// flannelPluginRecipe builds flannel's CNI plugin from the last release of the common plugins that has it.
func flannelPluginRecipe(version string) recipe {
	return recipe{
		name: "cni-plugins", module: "github.com/containernetworking/plugins", version: version,
		local:    func(string) (string, error) { return "", nil },
		programs: []program{{name: "flannel", pkg: "github.com/containernetworking/plugins/plugins/meta/flannel"}},
	}
}

func konnectivityRecipe(version string) recipe {
	return recipe{
		name: "konnectivity", module: "sigs.k8s.io/apiserver-network-proxy", version: version,
		local: func(string) (string, error) { return version, nil },
		programs: []program{
			{name: "proxy-server", pkg: "sigs.k8s.io/apiserver-network-proxy/cmd/server"},
			{name: "proxy-agent", pkg: "sigs.k8s.io/apiserver-network-proxy/cmd/agent"},
		},
	}
}

var containerdPrograms = []string{"containerd", "containerd-shim-runc-v2", "ctr"}

func containerdRecipe(version string) recipe {
	const module = "github.com/containerd/containerd/v2"
	r := recipe{
		name: "containerd", module: module, version: version,
		local:  func(string) (string, error) { return "", nil },
		stamps: []string{module + "/version.Version=" + version, module + "/version.Package=" + module},
		tags:   "urfave_cli_no_docs",
	}
	for _, name := range containerdPrograms {
		r.programs = append(r.programs, program{name: name, pkg: module + "/cmd/" + name})
	}
	return r
}

// runcRecipe builds runc as upstream links what it publishes: statically, with libseccomp.
func runcRecipe(version string) recipe {
	const module = "github.com/opencontainers/runc"
	return recipe{
		name: "runc", module: module, version: version,
		local: func(string) (string, error) { return "", nil },
		cgo:   true, tags: "seccomp,netgo,osusergo,urfave_cli_no_docs",
		programs: []program{{name: "runc", pkg: module}},
	}
}

// cniPlugins are those that clusters of the lab use, and those that others often do.
var cniPlugins = []string{
	"ipam/host-local", "ipam/static", "main/bridge", "main/host-device", "main/ipvlan", "main/loopback", "main/macvlan", "main/ptp",
	"meta/bandwidth", "meta/firewall", "meta/portmap", "meta/tuning",
}

func cniPluginsRecipe(version string) recipe {
	const module = "github.com/containernetworking/plugins"
	r := recipe{
		name: "cni-common-plugins", module: module, version: version,
		local:  func(string) (string, error) { return "", nil },
		stamps: []string{module + "/pkg/utils/buildversion.BuildVersion=" + version},
	}
	for _, plugin := range cniPlugins {
		r.programs = append(r.programs, program{name: path.Base(plugin), pkg: module + "/plugins/" + plugin})
	}
	return r
}
