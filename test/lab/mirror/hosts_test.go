//go:build lab

package mirror

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/interrupt"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/lab"
)

// session ends when the program is told to end: tests then fail by what they wait for, and remove what they made.
var session context.Context

func TestMain(m *testing.M) { interrupt.Main(m, &session) }

// site is a network with a mirror, beside that of a lab that may be up, and hosts on it.
type site struct {
	network host.Network
	state   string
	lab     *lab.Lab
	cache   string
	hosts   []*host.Host
}

func newSite(ctx context.Context, t *testing.T, prefix string) *site {
	t.Helper()
	g := NewWithT(t)
	cache, err := artifacts.CacheDir()
	g.Expect(err).NotTo(HaveOccurred())
	s := &site{state: t.TempDir(), cache: cache, network: host.Network{
		Prefix:   prefix,
		Cloud:    netip.MustParsePrefix("10.213.0.0/24"),
		IDC:      netip.MustParsePrefix("10.223.0.0/24"),
		Uplink:   netip.MustParsePrefix("10.233.0.0/30"),
		Pods:     netip.MustParsePrefix("10.243.0.0/16"),
		Services: netip.MustParsePrefix("10.253.0.0/16"),
	}}
	s.lab, err = lab.OpenIn(s.state, s.network)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		for _, h := range s.hosts {
			g.Expect(h.Remove(context.WithoutCancel(ctx))).To(Succeed())
		}
		g.Expect(host.RemoveNetwork(s.network)).To(Succeed())
		g.Expect(host.Leftovers(s.network, s.state)).To(BeEmpty())
	})
	g.Expect(host.EnsureNetwork(ctx, s.network)).To(Succeed())
	return s
}

// mirror starts a mirror.
func (s *site) mirror(ctx context.Context, t *testing.T, content Content) *Mirror {
	t.Helper()
	g := NewWithT(t)
	m, err := Start(ctx, s.lab, content)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(m.Close()).To(Succeed()) })
	return m
}

// boot boots a bare host with a system.
func (s *site) boot(ctx context.Context, t *testing.T, system string) *host.Host {
	t.Helper()
	g := NewWithT(t)
	root, err := artifacts.EnsureBare(ctx, s.cache, system, func(step string) { t.Log(step) })
	g.Expect(err).NotTo(HaveOccurred())
	h, err := host.New(s.network, s.state, fmt.Sprintf("worker-%d", len(s.hosts)+1))
	g.Expect(err).NotTo(HaveOccurred())
	h.System = system
	s.hosts = append(s.hosts, h)
	g.Expect(h.Create(root)).To(Succeed())
	g.Expect(h.Boot(ctx)).To(Succeed())
	g.Expect(h.WaitLogin(ctx)).To(Succeed())
	return h
}

// TestBareHosts boots a host of each system.
func TestBareHosts(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(session, 30*time.Minute)
	defer cancel()
	s := newSite(ctx, t, "kokbr")
	content := small(t)
	program := filepath.Join(t.TempDir(), balancer)
	write(t, program, "#!/bin/sh\necho it works\n")
	deb, err := artifacts.EnsurePackage(ctx, s.cache, t.TempDir(), program, content.ReleaseVersion, func(step string) { t.Log(step) })
	g.Expect(err).NotTo(HaveOccurred())
	content.Repository, err = WriteRepository(ctx, t.TempDir(), deb)
	g.Expect(err).NotTo(HaveOccurred())
	m := s.mirror(ctx, t, content)
	for _, system := range artifacts.BareSystems() {
		h := s.boot(ctx, t, system)
		t.Run(system, func(t *testing.T) { testBare(ctx, t, h, m) })
	}
}

func testBare(ctx context.Context, t *testing.T, h *host.Host, m *Mirror) {
	g := NewWithT(t)
	look := func(argv ...string) string {
		output, err := h.Exec(ctx, nil, argv...)
		g.Expect(err).NotTo(HaveOccurred())
		return strings.TrimSpace(string(output))
	}
	g.Expect(look("sh", "-c", ". /etc/os-release; echo $ID-$VERSION_ID")).To(Equal(h.System))
	for _, program := range []string{"containerd", "ctr", "runc", "kubelet", "kubectl", balancer} {
		_, err := h.Exec(ctx, nil, "which", program)
		g.Expect(err).To(HaveOccurred(), "%s is there", program)
	}
	for _, program := range []string{"cloud-init", "sshd", "nft", "ip", "conntrack", "curl", "apt-get", "sudo"} {
		look("which", program)
	}
	look("cloud-init", "--version")
	g.Expect(look("systemctl", "list-units", "--plain", "--no-legend", "--state=failed")).To(BeEmpty(), "units that failed")

	g.Expect(h.WriteFile("/etc/lab-ca.crt", []byte(m.CABundle), 0o644)).To(Succeed())
	g.Expect(look("curl", "--fail", "--silent", "--cacert", "/etc/lab-ca.crt", m.at(kubeletURL))).To(HavePrefix(kubeletURL))
	g.Expect(h.WriteFile("/etc/apt/lab.asc", []byte(m.content.Repository.Key), 0o644)).To(Succeed())
	source := strings.Replace(m.Source(), "deb ", "deb [signed-by=/etc/apt/lab.asc] ", 1)
	g.Expect(h.WriteFile("/etc/apt/sources.list.d/lab.list", []byte(source+"\n"), 0o644)).To(Succeed())
	look("apt-get", "update", "-q", "--error-on=any")
	look("apt-get", "install", "-q", "-y", balancer+"=0.1.0-1")
	g.Expect(look(balancer)).To(Equal("it works"))

	other, _, err := sign([]byte("another key"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(h.WriteFile("/etc/apt/lab.asc", []byte(other), 0o644)).To(Succeed())
	g.Expect(os.RemoveAll(h.DiskPath("/var/lib/apt/lists"))).To(Succeed())
	_, err = h.Exec(ctx, nil, "apt-get", "update", "-q", "--error-on=any")
	g.Expect(err).To(HaveOccurred(), "apt trusts a repository that another key signed")
}
