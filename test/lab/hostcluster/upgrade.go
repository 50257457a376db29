package hostcluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// drainLimit bounds the drain of a node: whoever is asked to go has much less to do.
const drainLimit = 10 * time.Minute

// UpgradeControlPlane gives the control plane of a cluster that is up the programs of cfg.Set, in the order of Kubernetes'
// version skew policy: etcd if it is another one, kube-apiserver, and then what asks it. Nodes stay as they are.
func UpgradeControlPlane(ctx context.Context, cfg Config) error {
	c, err := open(cfg)
	if err != nil {
		return err
	}
	etcd, apiserver, rest, err := controlPlaneServices(c.credentials)
	if err != nil {
		return err
	}
	c.progress("host cluster: etcd and kube-apiserver of %s", c.Set.Versions.Host)
	for _, services := range [][]service{etcd, apiserver} {
		if err := c.renew(ctx, c.credentials.controlPlane, services...); err != nil {
			return err
		}
	}
	if err := c.waitServed(ctx); err != nil {
		return err
	}
	c.progress("host cluster: kube-controller-manager and kube-scheduler of %s", c.Set.Versions.Host)
	return c.renew(ctx, c.credentials.controlPlane, rest...)
}

// UpgradeNode cordons the node of a host, drains it once cordoned returns, gives it kubelet and kube-proxy of cfg.Set, and
// lets pods come again once it is usable. A node that was upgraded before stays as it is.
func UpgradeNode(ctx context.Context, cfg Config, h *host.Host, cordoned func(ctx context.Context, node string) error) error {
	c, err := open(cfg)
	if err != nil {
		return err
	}
	node, err := c.client.CoreV1().Nodes().Get(ctx, h.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if c.upgraded(node) == nil && !node.Spec.Unschedulable {
		return nil
	}
	if err := c.kubectl(ctx, "cordon", h.Name); err != nil {
		return err
	}
	if err := cordoned(ctx, h.Name); err != nil {
		return err
	}
	// Pods of DaemonSets stay: tenants' API servers serve on.
	err = c.kubectl(ctx, "drain", h.Name, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout="+drainLimit.String())
	if err != nil {
		return err
	}
	services, err := nodeServices(c.credentials, h)
	if err != nil {
		return err
	}
	if err := c.renewProgram(h, "kubectl"); err != nil {
		return err
	}
	if err := c.renew(ctx, h, services...); err != nil {
		return err
	}
	if err := c.join(ctx, h); err != nil {
		return err
	}
	if err := c.waitUpgraded(ctx, h); err != nil {
		return err
	}
	if err := c.kubectl(ctx, "uncordon", h.Name); err != nil {
		return err
	}
	return c.waitWorkloads(ctx)
}

// renew has services run the set's programs, and restarts those that ran others.
func (c *cluster) renew(ctx context.Context, h *host.Host, services ...service) error {
	for _, s := range services {
		if s.unit == "" {
			continue // Debian's own
		}
		if err := c.renewProgram(h, s.name); err != nil {
			return err
		}
	}
	return start(ctx, h, services...)
}

// renewProgram puts a program of the set in the place of the host's, if that is another. What runs goes on.
func (c *cluster) renewProgram(h *host.Host, name string) error {
	source, err := c.Set.HostProgram(name)
	if err != nil {
		return err
	}
	wanted, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	path := programs + name
	if old, err := os.ReadFile(h.DiskPath(path)); err == nil && bytes.Equal(old, wanted) {
		return nil
	}
	// Forgotten first: a service that this is the program of is then restarted also after an interruption.
	if err := h.WriteFile(service{name: name}.stamp(), nil, 0o644); err != nil {
		return err
	}
	return h.WriteFile(path, wanted, 0o755)
}

// waitServed waits until the API is ready and of the set's version.
func (c *cluster) waitServed(ctx context.Context) error {
	want, has := c.Set.Versions.Host, ""
	err := wait.PollUntilContextTimeout(ctx, interval, 3*time.Minute, true, func(context.Context) (bool, error) {
		version, err := c.client.Discovery().ServerVersion()
		if err == nil {
			has = version.GitVersion
		}
		return err == nil && has == want, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the host cluster's API of %s, which was %q when it was last asked (see: lab exec %s -- journalctl -u kube-apiserver -u etcd): %w",
			want, has, c.credentials.controlPlane.Name, err)
	}
	return c.waitAPI(ctx)
}

// upgraded returns what keeps a node from being of the set's version.
func (c *cluster) upgraded(node *corev1.Node) error {
	if has, want := node.Status.NodeInfo.KubeletVersion, c.Set.Versions.Host; has != want {
		return fmt.Errorf("kubelet of node %s is of %s, not %s", node.Name, has, want)
	}
	return nodeReady(node)
}

// waitUpgraded waits until the new kubelet has told its version, and the node is usable with it.
func (c *cluster) waitUpgraded(ctx context.Context, h *host.Host) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, interval, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
		node, err := c.client.CoreV1().Nodes().Get(ctx, h.Name, metav1.GetOptions{})
		if err == nil {
			err = c.upgraded(node)
		}
		if err == nil {
			err = c.nodeUsable(ctx, h)
		}
		last = err
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for node %s (see: lab exec %s -- journalctl -u kubelet -u kube-proxy): %w", h.Name, h.Name, errors.Join(err, last))
	}
	c.progress("%s: node of %s", h.Name, c.Set.Versions.Host)
	return nil
}

// kubectl does what an administrator does, with the set's kubectl. What it prints is progress.
func (c *cluster) kubectl(ctx context.Context, args ...string) error {
	command := "kubectl " + strings.Join(args, " ")
	c.progress("$ %s", command)
	cmd := exec.CommandContext(ctx, c.Set.Kubectl, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+KubeconfigPath(c.StateDir))
	output, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(output)) {
		c.progress("  %s", strings.TrimSpace(line))
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", command, err, lastLines(string(output), 5))
	}
	return nil
}

// lastLines are the last of a text, where a program says what it failed at.
func lastLines(text string, count int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "; ")
}
