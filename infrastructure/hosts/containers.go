package hosts

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

const (
	containerdUnit = onworker.ContainerdUnit
	// tasksDir has a folder for each running container of Kubernetes, even while containerd does not run.
	tasksDir = "/run/containerd/io.containerd.runtime.v2.task/k8s.io"
	// namespacesDir has the network namespaces of pods, named cni-...
	namespacesDir = "/run/netns"
)

// kubernetes is the command ctr for the namespace of kubelet's containers.
func kubernetes(args ...string) []string {
	return append([]string{"ctr", "--namespace", "k8s.io"}, args...)
}

// containers are the identifiers of kubelet's containers.
func (h *Host) containers(ctx context.Context) ([]string, error) {
	output, err := h.run(ctx, kubernetes("containers", "list", "--quiet")...)
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(output)), nil
}

// removePods ends and removes all of kubelet's containers, and no others. crictl removes pods and releases their addresses;
// ctr removes what crictl left, and a restart makes containerd forget them. A containerd that is new to the host may not
// work: it is used only when there is something to end.
func (h *Host) removePods(ctx context.Context, record *Record, programs []string) error {
	if !slices.Contains(programs, "ctr") {
		return nil
	}
	units, err := h.units(ctx, containerdUnit)
	if err != nil {
		return err
	}
	tasks, err := h.entries(ctx, tasksDir)
	if err != nil {
		return err
	}
	if len(tasks) == 0 && (record.newContainerd() || !units[0].runs()) {
		return nil
	}
	if !units[0].runs() {
		if _, err := h.run(ctx, "systemctl", "start", containerdUnit); err != nil {
			return err
		}
	}
	if slices.Contains(programs, "crictl") {
		if _, err := h.try(ctx, "crictl", "--runtime-endpoint", onworker.ContainerdSocket, "rmp", "--all", "--force"); err != nil {
			return err
		}
	}
	left, err := h.containers(ctx)
	if err != nil || len(left) == 0 {
		return err
	}
	// Some containers have no task, which is no failure. Whether anything is left is verified at the end.
	if _, err := h.try(ctx, kubernetes(append([]string{"tasks", "delete", "--force"}, left...)...)...); err != nil {
		return err
	}
	if _, err := h.try(ctx, kubernetes(append([]string{"containers", "delete"}, left...)...)...); err != nil {
		return err
	}
	_, err = h.run(ctx, "systemctl", "restart", containerdUnit)
	return err
}

// isContainerds reports whether a file is containerd's program, or one that containerd reads.
func isContainerds(file string) bool {
	return strings.HasPrefix(file, "/etc/containerd/") || strings.Contains(file, "/"+containerdUnit+".d/") ||
		slices.Contains([]string{onworker.ProxyFile, unitFolder + "/" + containerdUnit}, file) || path.Base(file) == "containerd"
}

// restartContainerd restarts a running containerd, so that it reads the host's own settings: it keeps settings and
// environment variables from its start.
func (h *Host) restartContainerd(ctx context.Context) error {
	units, err := h.units(ctx, containerdUnit)
	if err != nil || !units[0].loaded || !units[0].runs() {
		return err
	}
	_, err = h.run(ctx, "systemctl", "restart", "--", containerdUnit)
	return err
}

// entries are the names in a folder; none when it does not exist.
func (h *Host) entries(ctx context.Context, folder string) ([]string, error) {
	there, err := h.existing(ctx, folder)
	if err != nil || len(there) == 0 {
		return nil, err
	}
	output, err := h.run(ctx, "find", folder, "-mindepth", "1", "-maxdepth", "1", "-print0")
	return list(output), err
}

// nodeLinks are network devices that CNI plugins and kube-proxy make once for a node.
var nodeLinks = []string{"cni0", "flannel.1", "flannel-v6.1", "cilium_host", "cilium_net", "cilium_vxlan", "vxlan.calico", "kube-ipvs0"}

// removeNetwork removes the network namespaces of pods and the devices of a node.
func (h *Host) removeNetwork(ctx context.Context) error {
	namespaces, err := h.entries(ctx, namespacesDir)
	if err != nil {
		return err
	}
	for _, namespace := range namespaces {
		if name, ok := strings.CutPrefix(namespace, namespacesDir+"/cni-"); ok {
			if _, err := h.run(ctx, "ip", "netns", "delete", "cni-"+name); err != nil {
				return err
			}
		}
	}
	there, err := h.links(ctx)
	if err != nil {
		return err
	}
	for _, link := range there {
		// The other device of a pair is gone with the first.
		if _, err := h.try(ctx, "ip", "link", "delete", link); err != nil {
			return err
		}
	}
	return nil
}

// links are the network devices of a node that exist. They are read by netlink, because /sys may show those of another host
// where this host is a container.
func (h *Host) links(ctx context.Context) ([]string, error) {
	output, err := h.run(ctx, "ip", "-json", "link", "show")
	if err != nil {
		return nil, err
	}
	var all []struct {
		Name string `json:"ifname"`
	}
	if err := json.Unmarshal(output, &all); err != nil {
		return nil, fmt.Errorf("read the network devices of the host: %w", err)
	}
	var there []string
	for _, link := range all {
		if slices.Contains(nodeLinks, link.Name) {
			there = append(there, link.Name)
		}
	}
	return there, nil
}
