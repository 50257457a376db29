package cleanup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/accounts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cloudinit"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/containerd"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/footprint"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/network"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

// hostnameFile and hostsFile change with the host's name.
const (
	hostnameFile = "/etc/hostname"
	hostsFile    = "/etc/hosts"
)

// Note completes the record of a machine with what its bootstrap data will change, keeps copies of that, and writes the
// record. Call it before anything changes.
func Note(ctx context.Context, h *hosts.Host, record *records.Record, userData []byte) error {
	found := footprint.Of(userData)
	keyFiles, err := accounts.Note(ctx, h, found.Users, record)
	if err != nil {
		return err
	}
	files := slices.Concat(found.Files, keyFiles, []string{onworker.KubeletEnvironment, hostnameFile, hostsFile, cloudinit.ConfigFile})
	there, err := h.Existing(ctx, append(files, cloudinit.Dir)...)
	if err != nil {
		return err
	}
	record.Added = slices.DeleteFunc(files, func(file string) bool { return slices.Contains(there, file) })
	// A node's folders are emptied completely: no file in them is restored.
	originals := slices.DeleteFunc(there, isNodes)
	record.CloudInit = slices.Contains(originals, cloudinit.Dir)
	record.Replaced = slices.DeleteFunc(slices.Clone(originals), func(file string) bool { return file == cloudinit.Dir })
	hostname, err := h.Run(ctx, "uname", "-n")
	if err != nil {
		return err
	}
	record.Hostname = strings.TrimSpace(string(hostname))
	if record.Mounts, err = h.MountsBelow(ctx, nodePaths...); err != nil {
		return err
	}
	if record.TakenOver != "" { // Mounts inside of these folders are the node's, and go with it. Only a mount of a whole folder is the host's own.
		record.Mounts = slices.DeleteFunc(record.Mounts, func(point string) bool { return !slices.Contains(nodePaths, point) })
	} else if err := network.NoteRoutes(ctx, h, record); err != nil { // Those of a host that is taken over may be the node's, and go with it.
		return err
	}
	if err := containerd.Note(ctx, h, record); err != nil {
		return err
	}
	if err := h.Change(ctx, "install", "-d", "-m", "0700", records.Dir, records.OriginalsDir); err != nil {
		return err
	}
	if len(originals) > 0 {
		// coreutils 9.1, which Debian 12 has, fails to keep the mode of absolute parents.
		copies := []string{"env", "--chdir=/", "cp", "--archive", "--parents", "--"}
		for _, file := range originals {
			copies = append(copies, strings.TrimPrefix(file, "/"))
		}
		copies = append(copies, records.OriginalsDir)
		if err := h.Change(ctx, copies...); err != nil {
			return fmt.Errorf("keep a copy of what will be replaced: %w", err)
		}
	}
	return record.Write(ctx, h)
}
