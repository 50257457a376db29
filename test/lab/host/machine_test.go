//go:build lab

package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/interrupt"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
)

// session ends when the program is told to end: tests then fail by what they wait for, and remove what they made.
var session context.Context

func TestMain(m *testing.M) { interrupt.Main(m, &session) }

// testNetwork lies beside a lab that may be up.
func testNetwork() Network {
	return Network{
		Prefix:   "koktest",
		Cloud:    netip.MustParsePrefix("10.211.0.0/24"),
		IDC:      netip.MustParsePrefix("10.221.0.0/24"),
		Uplink:   netip.MustParsePrefix("10.231.0.0/30"),
		Pods:     netip.MustParsePrefix("10.241.0.0/16"),
		Services: netip.MustParsePrefix("10.251.0.0/16"),
	}
}

// TestHosts boots two hosts, breaks their link and their power, and proves that nothing of them is left in the end.
func TestHosts(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(session, 30*time.Minute)
	defer cancel()
	cache, err := artifacts.CacheDir()
	g.Expect(err).NotTo(HaveOccurred())
	set, err := artifacts.Ensure(ctx, cache, func(m string) { t.Log(m) })
	g.Expect(err).NotTo(HaveOccurred())

	n, state := testNetwork(), t.TempDir()
	before := machineState(t)
	var hosts []*Host
	var locks []string
	t.Cleanup(func() {
		for _, h := range hosts {
			g.Expect(h.Remove(context.WithoutCancel(ctx))).To(Succeed())
		}
		g.Expect(RemoveNetwork(n)).To(Succeed())
		for _, path := range locks {
			g.Expect(path).NotTo(BeAnExistingFile())
		}
		g.Eventually(func() string { return cmp.Diff(before, machineState(t)) }, "10s").Should(BeEmpty(), "left on the machine")
		g.Expect(Leftovers(n, state)).To(BeEmpty())
	})
	g.Expect(EnsureNetwork(ctx, n)).To(Succeed())
	for _, name := range []string{"cloud-1", "idc-1"} {
		h, err := New(n, state, name)
		g.Expect(err).NotTo(HaveOccurred())
		hosts = append(hosts, h)
		g.Expect(h.Create(set.RootFS)).To(Succeed())
		g.Expect(h.Boot(ctx)).To(Succeed())
		var root unix.Stat_t
		g.Expect(unix.Stat(h.path("root"), &root)).To(Succeed())
		locks = append(locks, fmt.Sprintf("/run/systemd/nspawn/locks/inode-%d:%d", root.Dev, root.Ino))
		g.Expect(locks[len(locks)-1]).To(BeAnExistingFile())
	}
	cloud, idc := hosts[0], hosts[1]

	t.Run("a second network refuses ranges that are routed", func(t *testing.T) {
		other := n
		other.Prefix = "koktwin"
		err := EnsureNetwork(ctx, other)
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("already routes")))
		NewWithT(t).Expect(Leftovers(other, t.TempDir())).To(BeEmpty())
	})
	t.Run("making and booting again changes nothing", func(t *testing.T) {
		g := NewWithT(t)
		old, err := idc.loadRun()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(EnsureNetwork(ctx, n)).To(Succeed())
		g.Expect(idc.Create(set.RootFS)).To(Succeed())
		g.Expect(idc.Boot(ctx)).To(Succeed())
		g.Expect(idc.loadRun()).To(Equal(old))
	})
	t.Run("a command's output, input and exit code come through", func(t *testing.T) { testExec(ctx, t, idc) })
	t.Run("a cut link hangs connections, a healed one goes on", func(t *testing.T) { testCut(t, n, cloud, idc) })
	t.Run("a host without power says nothing, and keeps its disk", func(t *testing.T) { testPower(ctx, t, cloud, idc) })
	t.Run("a host loses its power after somebody else had a network namespace", func(t *testing.T) { testOthersNamespace(ctx, t, idc) })
	t.Run("an interrupted boot is resumed", func(t *testing.T) { testInterrupted(ctx, t, idc) })
}

func testExec(ctx context.Context, t *testing.T, h *Host) {
	g := NewWithT(t)
	g.Expect(h.Exec(ctx, nil, "hostname")).To(Equal([]byte("idc-1\n")))
	g.Expect(h.Exec(ctx, strings.NewReader("in"), "cat")).To(Equal([]byte("in")))
	_, err := h.Exec(ctx, nil, "ls", "/no-such-file")
	var failed *ExecError
	g.Expect(errors.As(err, &failed)).To(BeTrue())
	g.Expect(failed.Stderr).To(ContainSubstring("/no-such-file"))
	g.Expect(h.WriteFile("/etc/lab/written", []byte("while it runs"), 0o600)).To(Succeed())
	g.Expect(h.Exec(ctx, nil, "cat", "/etc/lab/written")).To(Equal([]byte("while it runs")))
	g.Expect(h.WriteFile("/var/lib/etcd/written", []byte("own"), 0o600)).To(Succeed())
	g.Expect(h.Exec(ctx, nil, "cat", "/var/lib/etcd/written")).To(Equal([]byte("own")))
	// The context's end takes the whole command with it, here a shell and the child that it does not wait for.
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err = h.Exec(short, nil, "sh", "-c", "sleep 4711 & sleep 4711")
	g.Expect(err).To(HaveOccurred())
	_, err = h.Exec(ctx, nil, "pgrep", "-f", "^sleep 4711")
	g.Expect(err).To(MatchError(ContainSubstring("exit status 1")), "the command runs on")
	// What a kubelet sets for its machine stays in the host.
	outside, err := os.ReadFile("/proc/sys/kernel/panic")
	g.Expect(err).NotTo(HaveOccurred())
	_, err = h.Exec(ctx, strings.NewReader("7"), "tee", "/proc/sys/kernel/panic")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.ReadFile("/proc/sys/kernel/panic")).To(Equal(outside))
	g.Expect(h.Exec(ctx, nil, "systemctl", "list-units", "--failed", "--plain", "--no-legend")).To(BeEmpty())
}

func testCut(t *testing.T, n Network, cloud, idc *Host) {
	g := NewWithT(t)
	client, server := connect(t, cloud, idc)
	g.Expect(talk(client, server, time.Second)).To(Succeed())
	g.Expect(Cut(n)).To(Succeed())
	g.Expect(Cut(n)).To(Succeed())
	g.Expect(IsCut(n)).To(BeTrue())
	g.Expect(talk(client, server, time.Second)).To(MatchError(os.ErrDeadlineExceeded))
	g.Expect(Heal(n)).To(Succeed())
	g.Expect(Heal(n)).To(Succeed())
	g.Expect(IsCut(n)).To(BeFalse())
	// What was sent into the cut arrives by retransmission.
	received := make([]byte, 4)
	g.Expect(server.SetReadDeadline(time.Now().Add(30 * time.Second))).To(Succeed())
	_, err := io.ReadFull(server, received)
	g.Expect(err).NotTo(HaveOccurred())
}

func testPower(ctx context.Context, t *testing.T, cloud, idc *Host) {
	g := NewWithT(t)
	client, server := connect(t, cloud, idc)
	g.Expect(talk(client, server, time.Second)).To(Succeed())
	g.Expect(idc.PowerOff(ctx)).To(Succeed())
	g.Expect(idc.PowerOff(ctx)).To(Succeed())
	g.Expect(idc.Booted()).To(BeFalse())
	_, err := idc.Exec(ctx, nil, "true")
	g.Expect(err).To(MatchError(ContainSubstring("powered off")))
	g.Expect(client.SetReadDeadline(time.Now().Add(time.Second))).To(Succeed())
	_, err = client.Read(make([]byte, 1))
	g.Expect(err).To(MatchError(os.ErrDeadlineExceeded), "the client heard of the power failure")
	g.Expect(idc.WriteFile("/etc/lab/off", []byte("while it was off"), 0o644)).To(Succeed())
	g.Expect(idc.PowerOn(ctx)).To(Succeed())
	g.Expect(idc.Exec(ctx, nil, "cat", "/etc/lab/written")).To(Equal([]byte("while it runs")))
	g.Expect(idc.Exec(ctx, nil, "cat", "/etc/lab/off")).To(Equal([]byte("while it was off")))
}

// ip(8) prepares the folder of namespaces when nobody did, and would then cover those of hosts.
func testOthersNamespace(ctx context.Context, t *testing.T, h *Host) {
	g := NewWithT(t)
	other := testNetwork().name("other")
	for _, verb := range []string{"add", "del"} {
		output, err := exec.CommandContext(ctx, "ip", "netns", verb, other).CombinedOutput()
		g.Expect(err).NotTo(HaveOccurred(), "ip netns %s: %s", verb, output)
	}
	g.Expect(h.PowerOff(ctx)).To(Succeed())
	g.Expect(filepath.Join(namespaces, h.namespace())).NotTo(BeAnExistingFile())
	g.Expect(h.PowerOn(ctx)).To(Succeed())
	g.Expect(h.Exec(ctx, nil, "hostname")).To(Equal([]byte("idc-1\n")))
}

func testInterrupted(ctx context.Context, t *testing.T, h *Host) {
	g := NewWithT(t)
	for _, after := range []time.Duration{0, 20 * time.Millisecond, 60 * time.Millisecond, 150 * time.Millisecond} {
		g.Expect(h.PowerOff(ctx)).To(Succeed())
		short, cancel := context.WithTimeout(ctx, after)
		_ = h.Boot(short) // may even succeed
		cancel()
		g.Expect(h.Boot(ctx)).To(Succeed(), "after an interruption at %s", after)
		g.Expect(h.Exec(ctx, nil, "hostname")).To(Equal([]byte("idc-1\n")))
	}
}

// connect opens a connection from one host's network to another's.
func connect(t *testing.T, from, to *Host) (client, server net.Conn) {
	t.Helper()
	g := NewWithT(t)
	var listener net.Listener
	g.Expect(inNamespace(to.namespace(), func() (err error) {
		listener, err = net.Listen("tcp4", netip.AddrPortFrom(to.Address, 0).String())
		return err
	})).To(Succeed())
	defer listener.Close() //nolint:errcheck // only a listener
	g.Expect(inNamespace(from.namespace(), func() (err error) {
		client, err = net.DialTimeout("tcp4", listener.Addr().String(), 5*time.Second)
		return err
	})).To(Succeed())
	server, err := listener.Accept()
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	return client, server
}

// talk sends four bytes from client to server.
func talk(client, server net.Conn, limit time.Duration) error {
	if _, err := client.Write([]byte("ping")); err != nil {
		return err
	}
	if err := server.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	_, err := io.ReadFull(server, make([]byte, 4))
	return err
}

// machineState lists what hosts could leave behind on the machine. What belongs to other labs is left out: all of it
// has their name, which begins with kok.
func machineState(t *testing.T) []string {
	t.Helper()
	g := NewWithT(t)
	var all []string
	mounts, err := os.ReadFile("/proc/self/mounts")
	g.Expect(err).NotTo(HaveOccurred())
	for line := range bytes.Lines(mounts) {
		if bytes.Contains(line, []byte(" "+namespaces+" ")) {
			continue // the mount that stays: prepareNamespaces
		}
		all = append(all, "mount "+string(bytes.TrimSpace(line)))
	}
	links, err := netlink.LinkList()
	g.Expect(err).NotTo(HaveOccurred())
	for _, l := range links {
		all = append(all, "link "+l.Attrs().Name)
	}
	names := map[int]string{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	routes, err := netlink.RouteList(nil, netlink.FAMILY_ALL)
	g.Expect(err).NotTo(HaveOccurred())
	for _, r := range routes {
		all = append(all, fmt.Sprintf("route %s over %s", r.Dst, names[r.LinkIndex]))
	}
	for _, pattern := range []string{namespaces + "/*", "/run/systemd/nspawn/propagate/*", "/run/systemd/nspawn/unix-export/*"} {
		paths, err := filepath.Glob(pattern)
		g.Expect(err).NotTo(HaveOccurred())
		all = append(all, paths...)
	}
	for _, directory := range subtree("/sys/fs/cgroup") {
		all = append(all, "cgroup "+directory)
	}
	programs, err := filepath.Glob("/proc/[0-9]*/exe")
	g.Expect(err).NotTo(HaveOccurred())
	for _, p := range programs {
		target, err := os.Readlink(p)
		groups, groupsErr := os.ReadFile(filepath.Join(filepath.Dir(p), "cgroup"))
		if err == nil && groupsErr == nil && strings.Contains(target, "systemd") {
			all = append(all, fmt.Sprintf("process %s %s in %q", p, target, groups))
		}
	}
	return slices.DeleteFunc(all, func(s string) bool {
		return strings.Contains(s, "kok") && !strings.Contains(s, testNetwork().Prefix)
	})
}
