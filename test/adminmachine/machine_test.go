//go:build lab

package adminmachine

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/interrupt"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// session ends when the program is told to end: the test then fails by what it waits for, and removes what it made.
var session context.Context

func TestMain(m *testing.M) { interrupt.Main(m, &session) }

const (
	limit = 15 * time.Minute
	// patience bounds each wait.
	patience = 2 * time.Minute
	version  = "v0.2.0"
)

// site is a network with a host that API servers run on, and a machine of an administrator.
type site struct {
	*testing.T
	WithT
	ctx              context.Context
	servers, machine *host.Host
}

func newSite(ctx context.Context, t *testing.T) *site {
	t.Helper()
	s := &site{T: t, WithT: *NewWithT(t), ctx: ctx}
	cache, err := artifacts.CacheDir()
	s.Expect(err).NotTo(HaveOccurred())
	system, err := artifacts.EnsureDebian(ctx, cache, progress(t))
	s.Expect(err).NotTo(HaveOccurred())
	state := t.TempDir()
	network := host.Network{
		Prefix: "kokam",
		Cloud:  netip.MustParsePrefix("10.214.0.0/24"), IDC: netip.MustParsePrefix("10.224.0.0/24"), Uplink: netip.MustParsePrefix("10.234.0.0/30"),
		Pods: netip.MustParsePrefix("10.244.0.0/16"), Services: netip.MustParsePrefix("10.254.0.0/16"),
	}
	t.Cleanup(func() {
		for _, h := range []*host.Host{s.servers, s.machine} {
			if h != nil {
				s.Expect(h.Remove(context.WithoutCancel(ctx))).To(Succeed())
			}
		}
		s.Expect(host.RemoveNetwork(network)).To(Succeed())
		s.Expect(host.Leftovers(network, state)).To(BeEmpty())
	})
	s.Expect(host.EnsureNetwork(ctx, network)).To(Succeed())
	for name, h := range map[string]**host.Host{"idc-1": &s.servers, "idc-2": &s.machine} {
		*h, err = host.New(network, state, name)
		s.Expect(err).NotTo(HaveOccurred())
		s.Expect((*h).Create(system)).To(Succeed())
		s.Expect((*h).Boot(ctx)).To(Succeed())
	}
	s.install(cache)
	return s
}

// in is the site for a part of the test.
func (s *site) in(t *testing.T) *site {
	return &site{T: t, WithT: *NewWithT(t), ctx: s.ctx, servers: s.servers, machine: s.machine}
}

// install brings the package of the load balancer, and kok, to the machine, and makes a person there.
func (s *site) install(cache string) {
	s.Helper()
	programs := filepath.Join("..", "..", "bin")
	deb := s.pack(filepath.Join(programs, "kok-apiserver-lb"))
	kubectl, err := artifacts.EnsureKubectl(s.ctx, cache, progress(s.T))
	s.Expect(err).NotTo(HaveOccurred())
	s.put(kubectl, "/usr/local/bin/kubectl", 0o755)
	s.put(deb, "/root/"+filepath.Base(deb), 0o644)
	s.put(filepath.Join(programs, "kok"), "/usr/local/bin/kok", 0o755)
	written, err := commands("Install the load balancer")
	s.Expect(err).NotTo(HaveOccurred())
	_, err = s.machine.Exec(s.ctx, nil, "sh", "-c", "cd /root && "+written[0])
	s.Expect(err).NotTo(HaveOccurred())
	// What libpam-systemd, which the hosts' system leaves out, does at a login.
	s.Expect(s.machine.WriteFile("/etc/systemd/system/user@.service.d/login.conf", []byte("[Service]\nEnvironment=XDG_RUNTIME_DIR=/run/user/%i\n"), 0o644)).To(Succeed())
	s.root("systemctl", "daemon-reload")
	s.root("useradd", "--create-home", "--shell=/bin/sh", person)
}

// pack makes a package of the load balancer, by the program that makes those of releases.
func (s *site) pack(program string) string {
	s.Helper()
	out, unit := s.TempDir(), filepath.Join("..", "..", "bootstrap", "apiserverlb", "unit", "kok-apiserver-lb")
	packager := filepath.Join(out, "packages")
	build := exec.CommandContext(s.ctx, "go", "build", "-o", packager, ".")
	build.Dir, build.Stderr = filepath.Join("..", "..", "hack", "tools", "packages"), os.Stderr
	s.Expect(build.Run()).To(Succeed())
	said, err := exec.CommandContext(s.ctx, packager, "--version="+version, "--architecture="+runtime.GOARCH, "--program="+program,
		"--unit="+unit+".service", "--user-unit="+unit+"@.service", "--time=1", "--out="+out).CombinedOutput()
	s.Expect(err).NotTo(HaveOccurred(), "%s", said)
	packages, err := filepath.Glob(filepath.Join(out, "*.deb"))
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(packages).To(HaveLen(1))
	return packages[0]
}

// archive puts the load balancer into the person's home as the release's archive has it.
func (s *site) archive() {
	s.Helper()
	folder, file := s.TempDir(), "kok-apiserver-lb-"+version+"-linux-amd64.tar.gz"
	output, err := exec.CommandContext(s.ctx, "tar", "--create", "--gzip", "--file", filepath.Join(folder, file),
		"--directory", filepath.Join("..", "..", "bin"), "kok-apiserver-lb",
		"--directory", filepath.Join("..", "bootstrap", "apiserverlb", "unit"), "kok-apiserver-lb@.service").CombinedOutput()
	s.Expect(err).NotTo(HaveOccurred(), "%s", output)
	s.put(filepath.Join(folder, file), "/home/"+person+"/"+file, 0o644)
}

func progress(t *testing.T) func(string) { return func(step string) { t.Log(step) } }

func (s *site) put(file, path string, mode os.FileMode) {
	s.Helper()
	content, err := os.ReadFile(file)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.machine.WriteFile(path, content, mode)).To(Succeed())
}

// person has the machine.
const person = "alex"

// root runs a program as root of the machine.
func (s *site) root(argv ...string) string {
	s.Helper()
	output, err := s.machine.Exec(s.ctx, nil, argv...)
	s.Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(string(output))
}

// logIn has the person's systemd run, as a login does.
func (s *site) logIn() { s.root("systemctl", "start", "user@"+s.uid()+".service") }

func (s *site) logOut() { s.root("systemctl", "stop", "user@"+s.uid()+".service") }

func (s *site) uid() string { return s.root("id", "--user", person) }

// shell runs a command line as the person, who is logged in.
func (s *site) shell(command string) (string, error) {
	output, err := s.machine.Exec(s.ctx, nil, "runuser", "--login", person, "--command", "export XDG_RUNTIME_DIR=/run/user/$(id --user); "+command)
	return strings.TrimSpace(string(output)), err
}

// types has the person run a command that has to succeed.
func (s *site) types(command string) string {
	s.Helper()
	output, err := s.shell(command)
	s.Expect(err).NotTo(HaveOccurred(), "%s printed %s", command, output)
	s.Logf("%s: %s", command, output)
	return output
}
