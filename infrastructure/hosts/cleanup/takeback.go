package cleanup

import (
	"context"
	"slices"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/accounts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/containerd"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/footprint"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
)

// takeBack removes the files and users that the bootstrap data added and restores what it replaced.
func takeBack(ctx context.Context, h *hosts.Host, record *records.Record) error {
	if len(record.Added) > 0 {
		if err := h.Change(ctx, append([]string{"rm", "-f", "--"}, record.Added...)...); err != nil {
			return err
		}
	}
	if err := rename(ctx, h, record); err != nil {
		return err
	}
	for _, file := range record.Replaced {
		if file == hostsFile || isNodes(file) { // An older release kept copies of those, too.
			continue
		}
		if err := restore(ctx, h, file); err != nil {
			return err
		}
	}
	return accounts.TakeBack(ctx, h, record)
}

// rename gives the host its former name. sudo looks up the host's name: while hostsFile has no line for it and a DNS server
// is away, each command waits for seconds. So the line changes right after the name, and stays when the name cannot be
// changed.
func rename(ctx context.Context, h *hosts.Host, record *records.Record) error {
	if record.Hostname != "" {
		if err := h.Change(ctx, "hostname", "--", record.Hostname); err != nil {
			return err
		}
	}
	if !slices.Contains(record.Replaced, hostsFile) {
		return nil
	}
	return restore(ctx, h, hostsFile)
}

// restore puts back a file that the bootstrap data replaced.
func restore(ctx context.Context, h *hosts.Host, file string) error {
	return h.Change(ctx, "cp", "--archive", "--remove-destination", "--", records.OriginalsDir+file, file)
}

// clockUnits are the units that read footprint.ClockFiles.
var clockUnits = []string{"systemd-timesyncd.service", "chrony.service", "chronyd.service", "ntpsec.service", "ntp.service"}

// reload makes systemd, containerd and clockUnits read the host's own settings.
func reload(ctx context.Context, h *hosts.Host, record *records.Record) error {
	if err := h.Change(ctx, "systemctl", "daemon-reload"); err != nil {
		return err
	}
	if slices.Contains(record.Added, footprint.ClockFiles[0]) || slices.Contains(record.Replaced, footprint.ClockFiles[0]) {
		// Most of them do not exist on a host, which is no failure.
		if err := h.TryChange(ctx, append([]string{"systemctl", "try-restart", "--"}, clockUnits...)...); err != nil {
			return err
		}
	}
	if err := containerd.Reload(ctx, h, record); err != nil {
		return err
	}
	// reset-failed fails when no unit had failed.
	return h.TryChange(ctx, append([]string{"systemctl", "reset-failed", "--"}, nodeUnits...)...)
}
