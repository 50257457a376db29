package host

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// masked units would reach beyond the host (kernel parameters, modules, devices of the machine) or wait for what a
// lab host does not have.
var masked = []string{
	"systemd-sysctl.service", "systemd-modules-load.service", "systemd-binfmt.service", "proc-sys-fs-binfmt_misc.automount",
	"systemd-udevd.service", "systemd-udevd-control.socket", "systemd-udevd-kernel.socket", "systemd-udev-trigger.service",
	"systemd-udev-settle.service", "systemd-random-seed.service", "systemd-timesyncd.service", "systemd-remount-fs.service",
	"sys-kernel-config.mount", "sys-kernel-debug.mount", "sys-kernel-tracing.mount", "sys-fs-fuse-connections.mount",
	"dev-hugepages.mount", "dev-mqueue.mount", "console-getty.service", "getty.target", "fstrim.timer", "e2scrub_all.timer",
	"e2scrub_reap.service", "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "networking.service",
	sshUnit, "nftables.service",
}

// sshUnit runs on workers alone: what is done to nodes is done without it.
const sshUnit = "ssh.service"

// preparation makes the cgroups of the host writable, keeps from the machine the kernel parameters that a kubelet
// sets, and shares mounts with containers, all before anything else starts.
const preparation = `[Unit]
Description=Prepare the host for a kubelet
DefaultDependencies=no
Before=sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=-/bin/mount -o remount,bind,rw /sys/fs/cgroup
%sExecStart=/bin/mount --make-rshared /

[Install]
WantedBy=sysinit.target
`

// kernelParameters that a kubelet insists on (protectKernelDefaults), below /proc/sys.
var kernelParameters = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// configure writes what makes the disk this host's: identity, boot preparation, masked units, short stop time-outs.
func (h *Host) configure() error {
	var mounts bytes.Buffer
	for _, controller := range v1Controllers() {
		fmt.Fprintf(&mounts, "ExecStart=-/bin/mount -o remount,bind,rw /sys/fs/cgroup/%s\n", controller)
	}
	files := map[string]string{
		"/etc/machine-id":                       h.machineID() + "\n",
		"/etc/hostname":                         h.Name + "\n",
		"/etc/hosts":                            fmt.Sprintf("127.0.0.1 localhost\n%s %s\n", h.Address, h.Name),
		"/etc/systemd/system.conf.d/kok.conf":   "[Manager]\nDefaultTimeoutStopSec=5s\nDefaultLimitNOFILE=1048576\n",
		"/etc/systemd/journald.conf.d/kok.conf": "[Journal]\nStorage=persistent\nSystemMaxUse=200M\nRateLimitBurst=0\nReadKMsg=no\n",
		"/var/log/journal/.kept":                "",
	}
	units := masked
	if h.Worker() {
		units = slices.DeleteFunc(slices.Clone(masked), func(unit string) bool { return unit == sshUnit })
	} else {
		// Nodes have their configuration written before they boot.
		files["/etc/cloud/cloud-init.disabled"] = ""
	}
	for name, value := range kernelParameters {
		copied := filepath.Join("/etc/lab/kernel", name)
		files[copied] = value + "\n"
		fmt.Fprintf(&mounts, "ExecStart=-/bin/mount --bind %s /proc/sys/%s\n", copied, name)
	}
	files["/etc/systemd/system/kok-prepare.service"] = fmt.Sprintf(preparation, mounts.String())
	for path, content := range files {
		if err := h.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	links := map[string]string{
		"/etc/systemd/system/sysinit.target.wants/kok-prepare.service": "/etc/systemd/system/kok-prepare.service",
		"/etc/systemd/system/default.target":                           "/lib/systemd/system/multi-user.target",
	}
	for _, unit := range units {
		links["/etc/systemd/system/"+unit] = "/dev/null"
	}
	for path, target := range links {
		if err := h.Symlink(target, path); err != nil {
			return err
		}
	}
	return nil
}

// v1Controllers lists the directories of the machine's cgroup v1 hierarchies; none where there is only v2.
func v1Controllers() []string {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return nil
	}
	entries, err := os.ReadDir("/sys/fs/cgroup")
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != "systemd" && e.Name() != "unified" {
			names = append(names, e.Name())
		}
	}
	return names
}
