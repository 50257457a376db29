package cleanup

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cloudinit"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/containerd"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/network"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/ownership"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

// nodeUnits are stopped in this order: first the units that start others, and kubelet before its load balancer.
var nodeUnits = []string{cloudinit.Unit, onworker.BootstrapUnit, onworker.KubeletUnit, onworker.LoadBalancerUnit}

// nodePaths are files and folders that a node has and a plain host does not.
var nodePaths = []string{
	"/var/lib/kubelet", "/etc/kubernetes", "/etc/cni/net.d", "/var/lib/cni", "/run/flannel",
	"/var/lib/calico", "/run/calico", "/run/cilium", "/var/log/pods", "/var/log/containers",
	path.Clean(onworker.Dir), path.Clean(onworker.LoadBalancerDir), path.Clean(onworker.LoadBalancerStateLink), path.Clean(onworker.LoadBalancerState),
	"/run/kok-apiserver-lb", path.Clean(onworker.NodeKeysDir), path.Clean(onworker.SentinelDir), cloudinit.UnitFile,
	hosts.Temporary(onworker.KubeletEnvironment),
}

// Links returns a node's paths that are symbolic links, or are below one. A clean-up would remove only the link, and leave the keys and
// volumes behind it to the next machine. It would not find those volumes either: mountinfo names them by their real paths.
func Links(ctx context.Context, h *hosts.Host) ([]hosts.Link, error) {
	// systemd itself links to the state of a dynamic user.
	paths := slices.DeleteFunc(slices.Clone(nodePaths), func(file string) bool { return file == path.Clean(onworker.LoadBalancerStateLink) })
	return h.LinksTo(ctx, paths...)
}

// isNodes reports whether a file is in, or is, one of nodePaths.
func isNodes(file string) bool {
	return slices.ContainsFunc(nodePaths, func(dir string) bool { return file == dir || strings.HasPrefix(file, dir+"/") })
}

// EndNode ends and removes the node on a host that a person allowed to take over. A kubelet that found the kubeconfig of its
// former cluster would rejoin that. Everything else stays on the host. It can be repeated.
func EndNode(ctx context.Context, h *hosts.Host, record *records.Record) error {
	programs, err := h.Programs(ctx)
	if err != nil {
		return err
	}
	return errors.Join(take(ctx, []step{
		{"stop the units of a node", func(ctx context.Context) error { return stopUnits(ctx, h, record) }},
		{"remove pods", func(ctx context.Context) error { return containerd.RemovePods(ctx, h, record, programs) }},
		{"remove the pods' network", func(ctx context.Context) error { return network.Remove(ctx, h) }},
		{"remove routes to pods", func(ctx context.Context) error { return network.RemoveRoutes(ctx, h, record) }},
		{"remove packet filter rules", func(ctx context.Context) error { return network.RemoveRules(ctx, h, programs) }},
		{"unmount volumes", func(ctx context.Context) error { return unmount(ctx, h, record) }},
		{"remove a node's files", func(ctx context.Context) error { return removeNode(ctx, h, record) }},
	})...)
}

// brought returns the units that came with the bootstrap data. It returns templates (systemd.unit(5)) apart, because only
// instances of a template run.
func brought(record *records.Record) (units, templates []string) {
	for _, file := range record.Added {
		name := path.Base(file)
		if path.Dir(file)+"/" != onworker.UnitDir || path.Ext(name) == "" || slices.Contains(nodeUnits, name) {
			continue
		}
		if strings.Contains(name, "@.") {
			templates = append(templates, name)
		} else {
			units = append(units, name)
		}
	}
	return units, templates
}

// stopUnits stops a node's units and those that the bootstrap data brought along.
func stopUnits(ctx context.Context, h *hosts.Host, record *records.Record) error {
	units, templates := brought(record)
	names := slices.Concat(nodeUnits, units)
	if record.TakenOver != "" {
		names = slices.Concat(names, ownership.KubeletUnits[1:]) // The first is a node's.
	}
	states, err := h.Units(ctx, names...)
	if err != nil {
		return err
	}
	var problems []error
	for _, template := range templates {
		if err := stopInstances(ctx, h, template); err != nil {
			problems = append(problems, err)
		}
	}
	for i, name := range names {
		if states[i].Runs() {
			if err := h.Change(ctx, "systemctl", "stop", "--", name); err != nil {
				problems = append(problems, err)
			}
		}
		if states[i].Enabled {
			if err := h.Change(ctx, "systemctl", "disable", "--", name); err != nil {
				problems = append(problems, err)
			}
		}
	}
	return errors.Join(problems...)
}

// stopInstances stops and disables the instances of a template.
func stopInstances(ctx context.Context, h *hosts.Host, template string) error {
	there, err := h.Existing(ctx, onworker.UnitDir+template)
	if err != nil || len(there) == 0 {
		return err
	}
	if err := h.Change(ctx, "systemctl", "stop", "--", strings.Replace(template, "@.", "@*.", 1)); err != nil {
		return err
	}
	return h.Change(ctx, "systemctl", "disable", "--", template)
}

// nodeRuns names running units and containers of a node.
func nodeRuns(ctx context.Context, h *hosts.Host) ([]string, error) {
	units, err := unitsLeft(ctx, h)
	if err != nil {
		return nil, err
	}
	containers, err := containerd.Running(ctx, h)
	return append(units, containers...), err
}

// mounted are the mount points in and below nodePaths that are not the host's own.
func mounted(ctx context.Context, h *hosts.Host, record *records.Record) ([]string, error) {
	points, err := h.MountsBelow(ctx, nodePaths...)
	return slices.DeleteFunc(points, func(point string) bool { return slices.Contains(record.Mounts, point) }), err
}

// unmount unmounts what a node mounted.
func unmount(ctx context.Context, h *hosts.Host, record *records.Record) error {
	points, err := mounted(ctx, h, record)
	if err != nil {
		return err
	}
	return h.Unmount(ctx, points)
}

// split separates a node's paths that are removed from those that are emptied, because the host mounts something there.
func split(record *records.Record, paths []string) (gone, emptied []string) {
	for _, dir := range paths {
		if slices.ContainsFunc(record.Mounts, func(point string) bool { return point == dir || strings.HasPrefix(point, dir+"/") }) {
			emptied = append(emptied, dir)
		} else {
			gone = append(gone, dir)
		}
	}
	return gone, emptied
}

// removeNode removes a node's files. It removes none while a volume is mounted among them: a bind mount from the same disk
// is on the same file system, so a removal would reach into it. It removes none while one of the paths is a link.
func removeNode(ctx context.Context, h *hosts.Host, record *records.Record) error {
	links, err := Links(ctx, h)
	if err != nil {
		return err
	}
	if len(links) > 0 {
		return fmt.Errorf("they all stay, for a link leads elsewhere: %s; unmount and remove by hand what is there, and then the link", hosts.NamedLinks(links))
	}
	points, err := mounted(ctx, h, record)
	if err != nil {
		return err
	}
	if len(points) > 0 {
		return fmt.Errorf("they all stay, for a volume's data would go with them: %s is still mounted", hosts.Tidy(strings.Join(points, ", ")))
	}
	gone, emptied := split(record, nodePaths)
	for _, dir := range slices.Concat(record.Mounts, emptied) {
		// find fails on mount points; a later step verifies what is left.
		if err := h.TryChange(ctx, "find", dir, "-xdev", "-mindepth", "1", "-delete"); err != nil {
			return err
		}
	}
	return h.Remove(ctx, gone...)
}
