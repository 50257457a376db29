//go:build lab

package lab

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/interrupt"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// session ends when the program is told to end: tests then fail by what they wait for, and remove what they made.
var session context.Context

func TestMain(m *testing.M) { interrupt.Main(m, &session) }

// TestLab brings a lab up through interruptions, breaks and mends it, and takes it down.
func TestLab(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(session, time.Hour)
	defer cancel()
	// Beside a lab that may be up, and always in the same place: what a run that was killed left is found there.
	l, err := OpenIn(DefaultState+"-two", host.Network{
		Prefix:   "koktwo",
		Cloud:    netip.MustParsePrefix("10.212.0.0/24"),
		IDC:      netip.MustParsePrefix("10.222.0.0/24"),
		Uplink:   netip.MustParsePrefix("10.232.0.0/30"),
		Pods:     netip.MustParsePrefix("10.242.0.0/16"),
		Services: netip.MustParsePrefix("10.252.0.0/16"),
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(l.Down(ctx, true)).To(Succeed())
	watchers, err := readLimit("fs/inotify/max_user_instances")
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		g.Expect(l.Down(context.WithoutCancel(ctx), true)).To(Succeed())
		g.Expect(host.Leftovers(l.network, l.state)).To(BeEmpty())
		g.Expect(l.state).NotTo(BeADirectory())
		g.Expect(l.lockPath()).NotTo(BeAnExistingFile())
		g.Expect(readLimit("fs/inotify/max_user_instances")).To(Equal(watchers))
	})

	_, err = l.Artifacts(ctx, func(m string) { t.Log(m) })
	g.Expect(err).NotTo(HaveOccurred())
	for _, after := range []time.Duration{200 * time.Millisecond, 700 * time.Millisecond, 1500 * time.Millisecond, 4 * time.Second} {
		short, cancel := context.WithTimeout(ctx, after)
		_, _ = l.Up(short, "", func(string) {}) // interrupted wherever it was
		cancel()
	}
	_, err = l.Up(ctx, "", func(m string) { t.Log(m) })
	g.Expect(err).NotTo(HaveOccurred())
	config, err := l.RESTConfig()
	g.Expect(err).NotTo(HaveOccurred())
	client, err := kubernetes.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	expectNodes(ctx, t, client, "cloud-1", "idc-1", "idc-2", "idc-3")

	t.Run("a lab of another state directory keeps its hands off", func(t *testing.T) {
		g := NewWithT(t)
		other, err := OpenIn(filepath.Join(t.TempDir(), "other"), l.network)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = other.Up(ctx, "", func(string) {})
		g.Expect(err).To(MatchError(ContainSubstring("the lab in " + l.state + " is up")))
		g.Expect(other.Down(ctx, true)).To(MatchError(ContainSubstring("lies in " + l.state)))
	})
	t.Run("a host cluster of another version is not made of this one", func(t *testing.T) {
		_, err := l.Up(ctx, artifacts.HostVersions()[0], func(string) {})
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("make clean-lab")))
	})
	t.Run("a cut link stops heartbeats, and the machine reaches both sites", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(l.Cut(ctx)).To(Succeed())
		g.Eventually(func() (string, error) { return nodeState(ctx, l, "idc-1") }, "3m", "1s").WithContext(ctx).Should(Equal("Unknown"))
		g.Expect(nodeState(ctx, l, "cloud-1")).To(Equal("Ready"))
		g.Expect(l.Heal(ctx)).To(Succeed())
		g.Eventually(func() (string, error) { return nodeState(ctx, l, "idc-1") }, "3m", "1s").WithContext(ctx).Should(Equal("Ready"))
	})
	t.Run("a host is added", func(t *testing.T) {
		h, err := l.AddHost(ctx, func(m string) { t.Log(m) })
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		NewWithT(t).Expect(h.Name).To(Equal("idc-4"))
		expectNodes(ctx, t, client, "cloud-1", "idc-1", "idc-2", "idc-3", "idc-4")
	})
	t.Run("what the cluster holds survives down and up", func(t *testing.T) {
		g := NewWithT(t)
		kept := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept", Namespace: "default"}}
		_, err := client.CoreV1().ConfigMaps("default").Create(ctx, kept, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(l.PowerOff(ctx, "idc-2")).To(Succeed())
		g.Expect(l.Down(ctx, false)).To(Succeed())
		_, err = l.Up(ctx, "", func(m string) { t.Log(m) })
		g.Expect(err).NotTo(HaveOccurred())
		_, err = client.CoreV1().ConfigMaps("default").Get(ctx, "kept", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		expectNodes(ctx, t, client, "cloud-1", "idc-1", "idc-2", "idc-3", "idc-4")
	})
	t.Run("an added host is removed, a first one is not", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(l.RemoveHost(ctx, "idc-4")).To(Succeed())
		g.Expect(l.RemoveHost(ctx, "idc-3")).To(MatchError(ContainSubstring("cannot be removed")))
		expectNodes(ctx, t, client, "cloud-1", "idc-1", "idc-2", "idc-3")
		_, err := l.Host("idc-4")
		g.Expect(err).To(MatchError(ContainSubstring("there are cloud-1, idc-1, idc-2, idc-3")))
	})
	t.Run("collect writes what explains a failure", func(t *testing.T) {
		g, directory := NewWithT(t), t.TempDir()
		g.Expect(l.Collect(ctx, directory)).To(Succeed())
		for _, file := range []string{"audit.log", "status.txt", "objects/nodes.yaml", "hosts/cloud-1/journal.log"} {
			info, err := os.Stat(filepath.Join(directory, file))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(info.Size()).To(BeNumerically(">", 0), file)
		}
	})
}

// expectNodes waits until exactly these nodes are Ready.
func expectNodes(ctx context.Context, t *testing.T, client kubernetes.Interface, names ...string) {
	t.Helper()
	NewWithT(t).Eventually(func() ([]string, error) {
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		var ready []string
		for _, n := range nodes.Items {
			if readiness(n) == "Ready" {
				ready = append(ready, n.Name)
			}
		}
		return ready, nil
	}, "2m", "500ms").WithContext(ctx).Should(ConsistOf(names))
}

func nodeState(ctx context.Context, l *Lab, name string) (string, error) {
	status, err := l.Status(ctx)
	if err != nil {
		return "", err
	}
	for _, r := range status.Hosts {
		if r.Host.Name == name {
			return r.Node, status.Cluster
		}
	}
	return "", nil
}
