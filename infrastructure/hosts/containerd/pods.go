package containerd

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

// tasksDir has a folder for each running container of Kubernetes, even while containerd does not run.
const tasksDir = "/run/containerd/io.containerd.runtime.v2.task/k8s.io"

// kubernetes is the command ctr for the namespace of kubelet's containers.
func kubernetes(args ...string) []string {
	return append([]string{"ctr", "--namespace", "k8s.io"}, args...)
}

// containers are the identifiers of kubelet's containers.
func containers(ctx context.Context, h *hosts.Host) ([]string, error) {
	output, err := h.Run(ctx, kubernetes("containers", "list", "--quiet")...)
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(output)), nil
}

// RemovePods ends and removes all of kubelet's containers, and no others. crictl removes pods and releases their addresses;
// ctr removes what crictl left, and a restart makes containerd forget them. A containerd that is new to the host may not
// work: it is used only when there is something to end.
func RemovePods(ctx context.Context, h *hosts.Host, record *records.Record, programs []string) error {
	if !slices.Contains(programs, "ctr") {
		return nil
	}
	units, err := h.Units(ctx, onworker.ContainerdUnit)
	if err != nil {
		return err
	}
	tasks, err := h.Entries(ctx, tasksDir)
	if err != nil {
		return err
	}
	if len(tasks) == 0 && (isNew(record) || !units[0].Runs()) {
		return nil
	}
	if !units[0].Runs() {
		if err := h.Change(ctx, "systemctl", "start", onworker.ContainerdUnit); err != nil {
			return err
		}
	}
	if slices.Contains(programs, "crictl") {
		if err := h.TryChange(ctx, "crictl", "--runtime-endpoint", onworker.ContainerdSocket, "rmp", "--all", "--force"); err != nil {
			return err
		}
	}
	left, err := containers(ctx, h)
	if err != nil || len(left) == 0 {
		return err
	}
	// Some containers have no task, which is no failure. Whether anything is left is verified at the end.
	if err := h.TryChange(ctx, kubernetes(append([]string{"tasks", "delete", "--force"}, left...)...)...); err != nil {
		return err
	}
	if err := h.TryChange(ctx, kubernetes(append([]string{"containers", "delete"}, left...)...)...); err != nil {
		return err
	}
	return h.Change(ctx, "systemctl", "restart", onworker.ContainerdUnit)
}

// isRead reports whether a file is containerd's program, or one that containerd reads.
func isRead(file string) bool {
	return strings.HasPrefix(file, "/etc/containerd/") || strings.Contains(file, "/"+onworker.ContainerdUnit+".d/") ||
		slices.Contains([]string{onworker.ProxyFile, onworker.UnitDir + onworker.ContainerdUnit}, file) || path.Base(file) == "containerd"
}

// Reload restarts a running containerd if the machine changed what it reads: it keeps settings and environment variables from
// its start.
func Reload(ctx context.Context, h *hosts.Host, record *records.Record) error {
	if !slices.ContainsFunc(slices.Concat(record.Added, record.Replaced), isRead) {
		return nil
	}
	units, err := h.Units(ctx, onworker.ContainerdUnit)
	if err != nil || !units[0].Loaded || !units[0].Runs() {
		return err
	}
	return h.Change(ctx, "systemctl", "restart", "--", onworker.ContainerdUnit)
}

// Running names the containers of Kubernetes that run.
func Running(ctx context.Context, h *hosts.Host) ([]string, error) {
	tasks, err := h.Entries(ctx, tasksDir)
	for i, task := range tasks {
		tasks[i] = path.Base(task)
	}
	return hosts.Named("container", tasks), err
}
