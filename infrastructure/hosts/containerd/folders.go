// Package containerd notes what of containerd is on a host before it becomes a machine, and later removes the pods, images and
// folders that came with the machine. A containerd of the host's own stays, with its own images.
package containerd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

// containerdDir is where containerd keeps images and containers.
const containerdDir = "/var/lib/containerd"

// containerdFolders are folders that containerd and CNI plugins bring to a host without containerd.
var containerdFolders = []string{
	"/etc/containerd", "/etc/cni", "/opt/cni", "/opt/containerd", "/run/containerd", "/run/nri", containerdDir,
}

// hasContainerd reports whether containerd is installed.
func hasContainerd(ctx context.Context, h *hosts.Host) (bool, hosts.UnitState, error) {
	programs, err := h.Programs(ctx)
	if err != nil || !slices.Contains(programs, "systemctl") {
		return false, hosts.UnitState{}, err
	}
	units, err := h.Units(ctx, onworker.ContainerdUnit)
	if err != nil {
		return false, hosts.UnitState{}, err
	}
	return slices.Contains(programs, "containerd") || units[0].Loaded, units[0], nil
}

// Note records the images and folders that are on the host already.
func Note(ctx context.Context, h *hosts.Host, record *records.Record) (err error) {
	if record.Images, err = noteImages(ctx, h); err != nil {
		return err
	}
	record.Folders, err = noteFolders(ctx, h)
	return err
}

// noteFolders returns the containerdFolders that are missing on the host, or are an empty disk. It returns none for a host
// with a containerd of its own.
func noteFolders(ctx context.Context, h *hosts.Host) ([]string, error) {
	has, _, err := hasContainerd(ctx, h)
	if err != nil || has {
		return nil, err
	}
	there, err := h.Existing(ctx, containerdFolders...)
	if err != nil {
		return nil, err
	}
	folders := slices.DeleteFunc(slices.Clone(containerdFolders), func(folder string) bool { return slices.Contains(there, folder) })
	disks, err := h.MountsBelow(ctx, there...)
	if err != nil {
		return nil, err
	}
	for _, folder := range there {
		if !slices.Contains(disks, folder) {
			continue
		}
		files, err := h.FileBelow(ctx, folder)
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			folders = append(folders, folder)
		}
	}
	return folders, nil
}

// isNew reports whether the host had nothing of containerd before. Then all containers and images came with the machine.
func isNew(record *records.Record) bool { return slices.Contains(record.Folders, containerdDir) }

// folderUse says what to do with folders that came with a machine: remove them, empty them because they are disks of the
// host's own, or unmount something below them first.
type folderUse struct{ gone, disks, below []string }

// broughtFolders are the folders that came with the machine's containerd. When containerd itself stays, because packages
// stay, its settings and plugins stay, too.
func broughtFolders(ctx context.Context, h *hosts.Host, record *records.Record, stays bool) (folderUse, error) {
	folders := slices.DeleteFunc(slices.Clone(record.Folders), func(folder string) bool { return stays && folder != containerdDir })
	found := folderUse{}
	if len(folders) == 0 {
		return found, nil
	}
	points, err := h.MountsBelow(ctx, folders...)
	for _, point := range points {
		if slices.Contains(folders, point) {
			found.disks = append(found.disks, point)
		} else {
			found.below = append(found.below, point)
		}
	}
	found.gone = slices.DeleteFunc(folders, func(folder string) bool { return slices.Contains(found.disks, folder) })
	return found, err
}

// Remove removes what a containerd that is new to the host brought: all its folders when it is gone, and only
// containers and images when it stays.
func Remove(ctx context.Context, h *hosts.Host, record *records.Record) error {
	if len(record.Folders) == 0 {
		return nil
	}
	stays, unit, err := hasContainerd(ctx, h)
	if err != nil || stays && !isNew(record) { // RemoveImages has done that.
		return err
	}
	if unit.Runs() {
		if err := h.Change(ctx, "systemctl", "stop", "--", onworker.ContainerdUnit); err != nil {
			return err
		}
	}
	if err := removeFolders(ctx, h, record, stays); err != nil || !stays || !unit.Runs() {
		return err
	}
	// containerd may never have worked.
	return h.TryChange(ctx, "systemctl", "start", "--", onworker.ContainerdUnit)
}

// removeFolders changes nothing while a container runs: tasksDir, which shows running containers, is in one of the folders.
func removeFolders(ctx context.Context, h *hosts.Host, record *records.Record, stays bool) error {
	running, err := Running(ctx, h)
	if err != nil {
		return err
	}
	if len(running) > 0 {
		return fmt.Errorf("its folders stay, for there still run: %s; restart the host", strings.Join(running, "; "))
	}
	folders, err := broughtFolders(ctx, h, record, stays)
	if err != nil {
		return err
	}
	problem := h.Unmount(ctx, folders.below)
	if folders, err = broughtFolders(ctx, h, record, stays); err != nil {
		return errors.Join(problem, err)
	}
	if len(folders.below) > 0 {
		return errors.Join(problem, fmt.Errorf("its folders stay, for %s is still mounted", hosts.Tidy(strings.Join(folders.below, ", "))))
	}
	for _, disk := range folders.disks {
		if err := h.Change(ctx, "find", disk, "-xdev", "-mindepth", "1", "-delete"); err != nil {
			return err
		}
	}
	if len(folders.gone) == 0 {
		return nil
	}
	return h.Remove(ctx, folders.gone...)
}

// foldersLeft names what is left of a containerd that is new to the host. imagesLeft names the images of one that runs.
func foldersLeft(ctx context.Context, h *hosts.Host, record *records.Record) ([]string, error) {
	if len(record.Folders) == 0 {
		return nil, nil
	}
	stays, unit, err := hasContainerd(ctx, h)
	if err != nil || stays && unit.Runs() {
		return nil, err
	}
	var left []string
	if unit.Runs() {
		left = append(left, fmt.Sprintf("unit %s (%s)", onworker.ContainerdUnit, unit.Active))
	}
	folders, err := broughtFolders(ctx, h, record, stays)
	if err != nil {
		return nil, err
	}
	files, err := h.Existing(ctx, folders.gone...)
	if err != nil {
		return nil, err
	}
	for _, disk := range folders.disks {
		more, err := h.FileBelow(ctx, disk)
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	return append(left, hosts.Named("file", files)...), nil
}

// Left names the containers, images and folders of the machine that are still on the host.
func Left(ctx context.Context, h *hosts.Host, record *records.Record, programs []string) ([]string, error) {
	all, err := Running(ctx, h)
	if err != nil {
		return nil, err
	}
	images, err := imagesLeft(ctx, h, record, programs)
	if err != nil {
		return nil, err
	}
	folders, err := foldersLeft(ctx, h, record)
	return slices.Concat(all, images, folders), err
}
