package hosts

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

// nodeUnits are stopped in this order: first the units that start others, and kubelet before its load balancer.
var nodeUnits = []string{unitName, onworker.BootstrapUnit, kubeletUnit, onworker.LoadBalancerUnit}

var (
	// unitFolder is where administrators, and bootstrap data, put units.
	unitFolder = path.Clean(onworker.UnitDir)
	// sentinelDir holds sentinelFile.
	sentinelDir = path.Clean(onworker.SentinelDir)
)

// nodePaths are files and folders that a node has and a plain host does not.
var nodePaths = []string{
	"/var/lib/kubelet", "/etc/kubernetes", "/etc/cni/net.d", "/var/lib/cni", "/run/flannel",
	"/var/lib/calico", "/run/calico", "/run/cilium", "/var/log/pods", "/var/log/containers",
	path.Clean(onworker.Dir), path.Clean(onworker.LoadBalancerDir), path.Clean(onworker.LoadBalancerStateLink), path.Clean(onworker.LoadBalancerState),
	"/run/kok-apiserver-lb", sentinelDir, unitFile,
	temporaryOf(unitFile), temporaryOf(cloudConfigFile), temporaryOf(kubeletFile),
}

// isNodes reports whether a file is in, or is, one of nodePaths.
func isNodes(file string) bool {
	return slices.ContainsFunc(nodePaths, func(dir string) bool { return file == dir || strings.HasPrefix(file, dir+"/") })
}

// CleanUp makes a host a plain host again, verifies that, and then removes the Record. A host without Record was never
// changed, or is clean already, unless it has files of a node. The error is an *InUseError when the host carries another
// machine, and contains an *UncleanError when something is left.
func (h *Host) CleanUp(ctx context.Context, instanceID string) error {
	record, err := h.readRecord(ctx)
	if err != nil {
		return err
	}
	if record == nil {
		return h.untouched(ctx)
	}
	if record.InstanceID != instanceID {
		return &InUseError{Record: record}
	}
	programs, err := h.programs(ctx)
	if err != nil {
		return err
	}
	problems := take(ctx, h.cleanUpSteps(record, programs))
	if ctx.Err() != nil {
		return errors.Join(problems...)
	}
	left, err := h.leftovers(ctx, record)
	if err != nil {
		problems = append(problems, fmt.Errorf("verify that the host is clean: %w", err))
	}
	if len(left) > 0 {
		problems = append(problems, &UncleanError{Left: left})
	}
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	return h.removePaths(ctx, stateDir)
}

// cleanUpSteps are in an order in which each still finds the programs that it needs: containerd goes after its containers.
func (h *Host) cleanUpSteps(record *Record, programs []string) []step {
	var imagesStay error
	return []step{
		{"stop the units of a node", func(ctx context.Context) error { return h.stopUnits(ctx, record) }},
		{"remove pods", func(ctx context.Context) error { return h.removePods(ctx, record, programs) }},
		{"remove pods' images", func(ctx context.Context) error {
			imagesStay = h.removeImages(ctx, record, programs)
			return imagesStay
		}},
		{"remove the pods' network", h.removeNetwork},
		{"remove packet filter rules", func(ctx context.Context) error { return h.removeRules(ctx, programs) }},
		{"unmount volumes", func(ctx context.Context) error { return h.unmount(ctx, record) }},
		{"remove the software of the machine", func(ctx context.Context) error {
			if imagesStay != nil { // Only the machine's containerd can remove them.
				return errors.New("it stays, for the pods' images could not be removed")
			}
			return h.removeSoftware(ctx, softwareDir)
		}},
		{"reset cloud-init", func(ctx context.Context) error { return h.resetCloudInit(ctx, record) }},
		{"remove a node's files", func(ctx context.Context) error { return h.removeNode(ctx, record) }},
		{"take back what cloud-init wrote", func(ctx context.Context) error { return h.takeBack(ctx, record) }},
		{"reload systemd", func(ctx context.Context) error { return h.reload(ctx, record) }},
		{"remove the machine's containerd", func(ctx context.Context) error { return h.removeContainerd(ctx, record) }},
	}
}

// untouched fails for a host without Record that has files which every node has: without the Record nobody knows what else
// is left. A bootstrap that ended before it wrote the Record has changed nothing; only its notes are removed.
func (h *Host) untouched(ctx context.Context) error {
	there, err := h.existing(ctx, kubeconfigFile, sentinelFile, softwareDir, stateDir)
	if err != nil || len(there) == 0 {
		return err
	}
	ofNode := slices.DeleteFunc(there, func(file string) bool { return file == stateDir })
	if len(ofNode) == 0 {
		return h.removePaths(ctx, stateDir)
	}
	left := named("file", ofNode)
	left[len(left)-1] += ", and " + recordFile + ", which says what else came with the machine, is gone"
	return &UncleanError{Left: left, NoRecord: true}
}

// brought returns the units that came with the bootstrap data. It returns templates (systemd.unit(5)) apart, because only
// instances of a template run.
func (r *Record) brought() (units, templates []string) {
	for _, file := range r.Added {
		name := path.Base(file)
		if path.Dir(file) != unitFolder || path.Ext(name) == "" || slices.Contains(nodeUnits, name) {
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
func (h *Host) stopUnits(ctx context.Context, record *Record) error {
	brought, templates := record.brought()
	names := slices.Concat(nodeUnits, brought)
	if record.TakenOver != "" {
		names = slices.Concat(names, kubeletUnits[1:]) // The first is a node's.
	}
	states, err := h.units(ctx, names...)
	if err != nil {
		return err
	}
	var problems []error
	for _, template := range templates {
		if err := h.stopInstances(ctx, template); err != nil {
			problems = append(problems, err)
		}
	}
	for i, name := range names {
		if states[i].runs() {
			if _, err := h.run(ctx, "systemctl", "stop", "--", name); err != nil {
				problems = append(problems, err)
			}
		}
		if states[i].enabled {
			if _, err := h.run(ctx, "systemctl", "disable", "--", name); err != nil {
				problems = append(problems, err)
			}
		}
	}
	return errors.Join(problems...)
}

// stopInstances stops and disables the instances of a template.
func (h *Host) stopInstances(ctx context.Context, template string) error {
	there, err := h.existing(ctx, unitFolder+"/"+template)
	if err != nil || len(there) == 0 {
		return err
	}
	if _, err := h.run(ctx, "systemctl", "stop", "--", strings.Replace(template, "@.", "@*.", 1)); err != nil {
		return err
	}
	_, err = h.run(ctx, "systemctl", "disable", "--", template)
	return err
}

// resetCloudInit removes cloud-init's state of the machine, with the secrets in its caches, and puts back that of the host's
// own instance. Otherwise cloud-init would take the host for a new instance at the next boot and make other SSH host keys.
func (h *Host) resetCloudInit(ctx context.Context, record *Record) error {
	if _, err := h.run(ctx, "cloud-init", "clean", "--logs"); err != nil {
		return err
	}
	there, err := h.existing(ctx, cloudDir)
	if err != nil {
		return err
	}
	if len(there) > 0 { // It may be a mount point.
		if _, err := h.run(ctx, "find", cloudDir, "-xdev", "-mindepth", "1", "-delete"); err != nil {
			return err
		}
	}
	if record.CloudInit {
		if _, err := h.run(ctx, "cp", "--archive", "--no-target-directory", "--", originalsDir+cloudDir, cloudDir); err != nil {
			return err
		}
	}
	return h.removePaths(ctx, "/run/cloud-init")
}

// split separates a node's paths that are removed from those that are emptied, because the host mounts something there.
func (r *Record) split(paths []string) (gone, emptied []string) {
	for _, dir := range paths {
		if slices.ContainsFunc(r.Mounts, func(point string) bool { return point == dir || strings.HasPrefix(point, dir+"/") }) {
			emptied = append(emptied, dir)
		} else {
			gone = append(gone, dir)
		}
	}
	return gone, emptied
}

// removeNode removes a node's files. It removes none while a volume is mounted among them: a bind mount from the same disk
// is on the same file system, so a removal would reach into it.
func (h *Host) removeNode(ctx context.Context, record *Record) error {
	points, err := h.mounted(ctx, record)
	if err != nil {
		return err
	}
	if len(points) > 0 {
		return fmt.Errorf("they all stay, for a volume's data would go with them: %s is still mounted", tidy(strings.Join(points, ", ")))
	}
	gone, emptied := record.split(nodePaths)
	for _, dir := range slices.Concat(record.Mounts, emptied) {
		// find fails on mount points; a later step verifies what is left.
		if _, err := h.try(ctx, "find", dir, "-xdev", "-mindepth", "1", "-delete"); err != nil {
			return err
		}
	}
	return h.removePaths(ctx, gone...)
}

// removePaths removes files and folders on their own file system. A volume that is still mounted keeps its content, and is
// reported as left behind.
func (h *Host) removePaths(ctx context.Context, paths ...string) error {
	_, err := h.run(ctx, append([]string{"rm", "-rf", "--one-file-system", "--"}, paths...)...)
	return err
}

// takeBack removes the files and users that the bootstrap data added and restores what it replaced.
func (h *Host) takeBack(ctx context.Context, record *Record) error {
	if len(record.Added) > 0 {
		if _, err := h.run(ctx, append([]string{"rm", "-f", "--"}, record.Added...)...); err != nil {
			return err
		}
	}
	if err := h.rename(ctx, record); err != nil {
		return err
	}
	for _, file := range record.Replaced {
		if file == hostsFile || isNodes(file) { // An older release kept copies of those, too.
			continue
		}
		if err := h.restore(ctx, file); err != nil {
			return err
		}
	}
	return h.takeBackUsers(ctx, record)
}

// rename gives the host its former name. sudo looks up the host's name: while hostsFile has no line for it and a DNS server
// is away, each command waits for seconds. So the line changes right after the name, and stays when the name cannot be
// changed.
func (h *Host) rename(ctx context.Context, record *Record) error {
	if record.Hostname != "" {
		if _, err := h.run(ctx, "hostname", "--", record.Hostname); err != nil {
			return err
		}
	}
	if !slices.Contains(record.Replaced, hostsFile) {
		return nil
	}
	return h.restore(ctx, hostsFile)
}

// restore puts back a file that the bootstrap data replaced.
func (h *Host) restore(ctx context.Context, file string) error {
	_, err := h.run(ctx, "cp", "--archive", "--remove-destination", "--", originalsDir+file, file)
	return err
}

// clockUnits are the units that read clockFiles.
var clockUnits = []string{"systemd-timesyncd.service", "chrony.service", "chronyd.service", "ntpsec.service", "ntp.service"}

// reload makes systemd, containerd and clockUnits read the host's own settings.
func (h *Host) reload(ctx context.Context, record *Record) error {
	if _, err := h.run(ctx, "systemctl", "daemon-reload"); err != nil {
		return err
	}
	if slices.Contains(record.Added, clockFiles[0]) || slices.Contains(record.Replaced, clockFiles[0]) {
		// Most of them do not exist on a host, which is no failure.
		if _, err := h.try(ctx, append([]string{"systemctl", "try-restart", "--"}, clockUnits...)...); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(slices.Concat(record.Added, record.Replaced), isContainerds) {
		if err := h.restartContainerd(ctx); err != nil {
			return err
		}
	}
	// reset-failed fails when no unit had failed.
	_, err := h.try(ctx, append([]string{"systemctl", "reset-failed", "--"}, nodeUnits...)...)
	return err
}
