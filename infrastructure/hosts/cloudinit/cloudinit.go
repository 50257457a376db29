// Package cloudinit has the host's own cloud-init read a seed of ours once, tells how far it is, and gives it back the
// instance that it had before.
package cloudinit

import (
	"context"
	_ "embed"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
)

const (
	// Dir is where cloud-init keeps its state.
	Dir = "/var/lib/cloud"
	// SeedDir has the seed of cloud-init's data source NoCloud.
	SeedDir = Dir + "/seed/nocloud"
	// ConfigFile is the file that we add to cloud-init's settings.
	ConfigFile = "/etc/cloud/cloud.cfg.d/99-kok.cfg"
	// Unit is the unit that runs cloud-init.
	Unit = "kok-cloud-init.service"
	// UnitFile is where Unit is, until the next boot.
	UnitFile = "/run/systemd/system/" + Unit
)

//go:embed assets/kok-cloud-init.service
var unitContent []byte

//go:embed assets/99-kok.cfg
var configContent []byte

// Seed writes the files that cloud-init reads: metaData and userData, and the unit that starts it.
func Seed(ctx context.Context, h *hosts.Host, metaData, userData []byte) error {
	if err := h.Remove(ctx, SeedDir); err != nil {
		return err
	}
	if err := h.Change(ctx, "install", "-d", "-m", "0700", SeedDir); err != nil {
		return err
	}
	err := h.WriteTogether(ctx,
		hosts.File{Path: SeedDir + "/meta-data", Content: metaData}, hosts.File{Path: SeedDir + "/user-data", Content: userData},
		hosts.File{Path: ConfigFile, Content: configContent}, hosts.File{Path: UnitFile, Content: unitContent})
	if err != nil {
		return err
	}
	return h.Change(ctx, "systemctl", "daemon-reload")
}

// Reset removes cloud-init's state of the machine, with the secrets in its caches, and puts back that of the host's
// own instance. Otherwise cloud-init would take the host for a new instance at the next boot and make other SSH host keys.
func Reset(ctx context.Context, h *hosts.Host, record *records.Record) error {
	if err := h.Change(ctx, "cloud-init", "clean", "--logs"); err != nil {
		return err
	}
	there, err := h.Existing(ctx, Dir)
	if err != nil {
		return err
	}
	if len(there) > 0 { // It may be a mount point.
		if err := h.Change(ctx, "find", Dir, "-xdev", "-mindepth", "1", "-delete"); err != nil {
			return err
		}
	}
	if record.CloudInit {
		if err := h.Change(ctx, "cp", "--archive", "--no-target-directory", "--", records.OriginalsDir+Dir, Dir); err != nil {
			return err
		}
	}
	return h.Remove(ctx, "/run/cloud-init")
}
