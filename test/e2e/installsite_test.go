//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/mirror"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/shell"
)

const (
	hostNodeLabel = controlplanev1.HostNodeLabel
	// installOwner is who has the machines.
	installOwner = "install-page"
	// runtimePause is the image of pods' sandboxes that containerd asks for unless it is told otherwise.
	runtimePause = "registry.k8s.io/pause:3.10.2"
	// What the lab's machines need of containerd beside what the page has: they share the machine's cgroups, and lack the
	// capability to lower a process's OOM score. A drop-in of the site's own starts containerd with it.
	siteContainerd     = "/etc/site/containerd.toml"
	siteContainerdUnit = `[Service]
ExecStart=
ExecStart=/usr/local/bin/containerd --config ` + siteContainerd + "\n"
	siteContainerdConfig = `version = 3
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      SystemdCgroup = false
`
)

// site is what a reader of docs/install.md has before the first command: a cluster without the providers, a registry, three bare
// machines, and a desk. The lab has no internet: a mirror has the names and the files of upstream's servers, and people of the
// site made its authority known to machines and desk.
type site struct {
	// values are those of step 1 as they are written.
	values map[string]string
	// nodes may carry control planes.
	nodes    []string
	machines []*host.Host
	// before is the state of each machine.
	before   map[string]map[string]string
	registry *registry
	upstream *mirror.Mirror
	tenant   *tenant
	// release is the folder that make release writes, key the file with the key that machines let in, and folder has what goes.
	release, key, folder string
}

func (s *site) prepare(ctx context.Context) {
	GinkgoHelper()
	s.folder = GinkgoT().TempDir()
	s.nodes = slices.Sorted(maps.Keys(env.hostNodes(ctx)))
	Expect(len(s.nodes)).To(BeNumerically(">=", 3), "host nodes of the lab")
	s.tenant = &tenant{ObjectKey: client.ObjectKey{Namespace: "team", Name: "blue"}, version: s.values["KUBERNETES_VERSION"], workers: 2}
	DeferCleanup(func(ctx SpecContext) {
		if !settings.keep {
			uninstallEverything(ctx)
			setHostNodes(ctx, s.nodes...)
			installGiven(ctx)
		}
	}, NodeTimeout(6*creation))
	s.haveUpstream(ctx)
	s.registry = &registry{open: true}
	s.registry.start(ctx)
	s.haveMachines(ctx)
	DeferCleanup(func(ctx SpecContext) {
		if !settings.keep {
			s.tenant.remove(ctx)
		}
	}, NodeTimeout(2*creation))
	uninstallEverything(ctx)
	setHostNodes(ctx)
}

// haveUpstream starts what has the names of upstream's servers. The release that step 2 makes is published there, and the
// manifests of the pod network, which has its plugins in the folder that upstream's has.
func (s *site) haveUpstream(ctx context.Context) {
	GinkgoHelper()
	cache, err := artifacts.CacheDir()
	Expect(err).NotTo(HaveOccurred())
	content := mirror.Content{ReleaseVersion: s.values["KOK_VERSION"], Images: slices.Clone(env.workerImages)}
	content.Upstream, err = artifacts.EnsureUpstream(ctx, cache, []string{s.values["KUBERNETES_VERSION"]}, func(step string) { env.log.Print("%s", step) })
	Expect(err).NotTo(HaveOccurred())
	content.Release, err = filepath.Abs("out/release")
	Expect(err).NotTo(HaveOccurred())
	s.release = content.Release

	pause := slices.IndexFunc(content.Images, func(i artifacts.Image) bool { return i.Name == artifacts.PauseImage })
	Expect(pause).To(BeNumerically(">=", 0), "image %s", artifacts.PauseImage)
	another := content.Images[pause]
	another.Name = runtimePause
	content.Images = append(content.Images, another)

	manifests, err := os.ReadFile(env.network)
	Expect(err).NotTo(HaveOccurred())
	const plugins = "path: /usr/lib/cni\n"
	Expect(strings.Count(string(manifests), plugins)).To(Equal(1), "%s in %s", plugins, env.network)
	network := filepath.Join(s.folder, "network.yml")
	s.write(network, strings.Replace(string(manifests), plugins, "path: /opt/cni/bin\n", 1))
	content.Files = map[string]string{s.values["NETWORK"]: network}

	s.upstream, err = mirror.StartAsUpstream(ctx, env.lab, content)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(s.upstream.Close()).To(Succeed()) })
}

// haveMachines gives the site three bare machines, prepared as its people do.
func (s *site) haveMachines(ctx context.Context) {
	GinkgoHelper()
	Expect(env.lab.RemoveOwned(ctx, installOwner)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		if !settings.keep {
			Expect(env.lab.RemoveOwned(ctx, installOwner)).To(Succeed())
		}
	}, NodeTimeout(creation))
	s.before = map[string]map[string]string{}
	for _, system := range []string{"debian-12", "debian-13", "debian-13"} {
		machine, err := env.lab.AddBare(ctx, installOwner, system, func(step string) { env.log.Print("%s", step) })
		Expect(err).NotTo(HaveOccurred())
		s.machines = append(s.machines, machine)
	}
	for _, machine := range s.machines {
		s.prepareMachine(ctx, machine)
		expectBare(ctx, machine)
		s.before[machine.Name] = settledState(ctx, machine, bareState)
	}
	access, err := env.lab.WorkerAccess(s.machines[0].Name)
	Expect(err).NotTo(HaveOccurred())
	s.key = filepath.Join(s.folder, "site-a")
	s.write(s.key, string(access.PrivateKey))
}

func (s *site) prepareMachine(ctx context.Context, machine *host.Host) {
	GinkgoHelper()
	_, _ = machine.Exec(ctx, nil, "cloud-init", "status", "--wait") // Its exit status is how it went, which does not matter here.
	known, err := machine.Exec(ctx, nil, "cat", "/etc/hosts")
	Expect(err).NotTo(HaveOccurred())
	var kernel unix.Utsname
	Expect(unix.Uname(&kernel)).To(Succeed())
	for path, content := range map[string]string{
		"/etc/hosts": string(known) + s.names(),
		"/usr/local/share/ca-certificates/site.crt": s.upstream.CABundle,
		siteContainerd: siteContainerdConfig,
		"/etc/systemd/system/containerd.service.d/site.conf": siteContainerdUnit,
		// The package of a kernel has this list of what is built in. The machine's kernel has br_netfilter, and no package.
		"/usr/lib/modules/" + unix.ByteSliceToString(kernel.Release[:]) + "/modules.builtin": "kernel/net/bridge/br_netfilter.ko\n",
	} {
		Expect(machine.WriteFile(path, []byte(content), 0o644)).To(Succeed())
	}
	for _, argv := range [][]string{{"update-ca-certificates"}, {"systemctl", "daemon-reload"}} {
		_, err := machine.Exec(ctx, nil, argv...)
		Expect(err).NotTo(HaveOccurred())
	}
	_, err = machine.Exec(ctx, nil, "test", "-d", "/proc/sys/net/bridge")
	Expect(err).NotTo(HaveOccurred(), "br_netfilter of %s", machine.Name)
}

// names has machines and desk find upstream's servers at the mirror.
func (s *site) names() string {
	return fmt.Sprintf("%s %s\n", env.lab.RouterAddress(), strings.Join(mirror.Names, " "))
}

// desk is the administrator's: a checkout, programs, and the environment of the shell.
func (s *site) desk() shell.Options {
	GinkgoHelper()
	top, err := filepath.Abs(".")
	Expect(err).NotTo(HaveOccurred())
	programs := filepath.Join(s.folder, "bin")
	Expect(os.Mkdir(programs, 0o755)).To(Succeed())
	for name, program := range map[string]string{"kubectl": env.kubectl, "clusterctl": env.clusterctl} {
		path, err := filepath.Abs(program)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.Symlink(path, filepath.Join(programs, name))).To(Succeed())
	}
	known, err := os.ReadFile("/etc/hosts")
	Expect(err).NotTo(HaveOccurred())
	hosts := filepath.Join(s.folder, "hosts")
	s.write(hosts, string(known)+s.names())

	// make hands its own variables on to what it runs, such as this suite.
	environment := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "MAKE") || strings.HasPrefix(variable, "MFLAGS=")
	})
	return shell.Options{Folder: top, Hosts: hosts, Env: append(environment,
		"PATH="+programs+":"+os.Getenv("PATH"), "KUBECONFIG="+env.proxy.GetKubeconfigPath(), "SSL_CERT_FILE="+s.authorities(),
		"CLUSTERCTL_DISABLE_VERSIONCHECK=true", // It would ask the internet for a newer clusterctl.
		"KUBE_PROXY_CONNTRACK=None",            // The lab's machines share the machine's kernel.
	)}
}

// authorities is a file with the certificates that the desk trusts: the system's, and those of the mirror and of the registry.
func (s *site) authorities() string {
	GinkgoHelper()
	system := os.Getenv("SSL_CERT_FILE")
	if system == "" {
		system = "/etc/ssl/certs/ca-certificates.crt"
	}
	all := s.upstream.CABundle
	for _, file := range []string{system, s.registry.authorities} {
		certificates, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		all += "\n" + string(certificates)
	}
	file := filepath.Join(s.folder, "authorities.crt")
	s.write(file, all)
	return file
}

func (s *site) write(file, content string) {
	GinkgoHelper()
	Expect(os.WriteFile(file, []byte(content), 0o600)).To(Succeed())
}

// uninstallEverything leaves nothing of the providers of this repository, nor of Cluster API; cert-manager stays.
func uninstallEverything(ctx context.Context) {
	GinkgoHelper()
	const core, namespace = "cluster-api", "capi-system"
	uninstallAll(ctx)
	installed, err := installedVersions(ctx)
	Expect(err).NotTo(HaveOccurred())
	if _, there := installed[core]; there {
		Expect(env.run(ctx, env.clusterctl, "delete", "--config", clusterctlConfig(), "--core", core, "--include-crd", "--include-namespace")).To(Succeed())
	}
	Eventually(ctx, func(g Gomega) {
		g.Expect(env.client.Get(ctx, client.ObjectKey{Name: namespace}, &corev1.Namespace{})).To(MatchError(apierrors.IsNotFound, "IsNotFound"), "namespace %s", namespace)
		g.Expect(definitionsOf(ctx, g, core)).To(BeEmpty(), "CRDs of %s", core)
	}).WithTimeout(creation).Should(Succeed(), "what clusterctl delete leaves of %s", core)
}
