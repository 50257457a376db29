package hosts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// containerdDir is where containerd keeps images and containers.
const containerdDir = "/var/lib/containerd"

// containerdFolders are folders that containerd and CNI plugins bring to a host without containerd.
var containerdFolders = []string{
	"/etc/containerd", "/etc/cni", "/opt/cni", "/opt/containerd", "/run/containerd", "/run/nri", containerdDir,
}

// hasContainerd reports whether containerd is installed.
func (h *Host) hasContainerd(ctx context.Context) (bool, unitState, error) {
	programs, err := h.programs(ctx)
	if err != nil || !slices.Contains(programs, "systemctl") {
		return false, unitState{}, err
	}
	units, err := h.units(ctx, containerdUnit)
	if err != nil {
		return false, unitState{}, err
	}
	return slices.Contains(programs, "containerd") || units[0].loaded, units[0], nil
}

// noteFolders returns the containerdFolders that are missing on the host, or are an empty disk. It returns none for a host
// with a containerd of its own.
func (h *Host) noteFolders(ctx context.Context) ([]string, error) {
	has, _, err := h.hasContainerd(ctx)
	if err != nil || has {
		return nil, err
	}
	there, err := h.existing(ctx, containerdFolders...)
	if err != nil {
		return nil, err
	}
	folders := slices.DeleteFunc(slices.Clone(containerdFolders), func(folder string) bool { return slices.Contains(there, folder) })
	disks, err := h.mountsBelow(ctx, there...)
	if err != nil {
		return nil, err
	}
	for _, folder := range there {
		if !slices.Contains(disks, folder) {
			continue
		}
		files, err := h.filesBelow(ctx, folder)
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			folders = append(folders, folder)
		}
	}
	return folders, nil
}

// newContainerd reports whether the host had nothing of containerd before. Then all containers and images came with the machine.
func (r *Record) newContainerd() bool { return slices.Contains(r.Folders, containerdDir) }

// folderUse says what to do with folders that came with a machine: remove them, empty them because they are disks of the
// host's own, or unmount something below them first.
type folderUse struct{ gone, disks, below []string }

// broughtFolders are the folders that came with the machine's containerd. When containerd itself stays, because packages
// stay, its settings and plugins stay, too.
func (h *Host) broughtFolders(ctx context.Context, record *Record, stays bool) (folderUse, error) {
	folders := slices.DeleteFunc(slices.Clone(record.Folders), func(folder string) bool { return stays && folder != containerdDir })
	found := folderUse{}
	if len(folders) == 0 {
		return found, nil
	}
	points, err := h.mountsBelow(ctx, folders...)
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

// removeContainerd removes what a containerd that is new to the host brought: all its folders when it is gone, and only
// containers and images when it stays.
func (h *Host) removeContainerd(ctx context.Context, record *Record) error {
	if len(record.Folders) == 0 {
		return nil
	}
	stays, unit, err := h.hasContainerd(ctx)
	if err != nil || stays && !record.newContainerd() { // removeImages has done that.
		return err
	}
	if unit.runs() {
		if _, err := h.run(ctx, "systemctl", "stop", "--", containerdUnit); err != nil {
			return err
		}
	}
	if err := h.removeFolders(ctx, record, stays); err != nil || !stays || !unit.runs() {
		return err
	}
	// containerd may never have worked.
	_, err = h.try(ctx, "systemctl", "start", "--", containerdUnit)
	return err
}

// removeFolders changes nothing while a container runs: tasksDir, which shows running containers, is in one of the folders.
func (h *Host) removeFolders(ctx context.Context, record *Record, stays bool) error {
	running, err := h.containersLeft(ctx)
	if err != nil {
		return err
	}
	if len(running) > 0 {
		return fmt.Errorf("its folders stay, for there still run: %s; restart the host", strings.Join(running, "; "))
	}
	folders, err := h.broughtFolders(ctx, record, stays)
	if err != nil {
		return err
	}
	problem := h.unmountAll(ctx, folders.below)
	if folders, err = h.broughtFolders(ctx, record, stays); err != nil {
		return errors.Join(problem, err)
	}
	if len(folders.below) > 0 {
		return errors.Join(problem, fmt.Errorf("its folders stay, for %s is still mounted", tidy(strings.Join(folders.below, ", "))))
	}
	for _, disk := range folders.disks {
		if _, err := h.run(ctx, "find", disk, "-xdev", "-mindepth", "1", "-delete"); err != nil {
			return err
		}
	}
	if len(folders.gone) == 0 {
		return nil
	}
	return h.removePaths(ctx, folders.gone...)
}

// containerdLeft names what is left of a containerd that is new to the host. imagesLeft names the images of one that runs.
func (h *Host) containerdLeft(ctx context.Context, record *Record) ([]string, error) {
	if len(record.Folders) == 0 {
		return nil, nil
	}
	stays, unit, err := h.hasContainerd(ctx)
	if err != nil || stays && unit.runs() {
		return nil, err
	}
	var left []string
	if unit.runs() {
		left = append(left, fmt.Sprintf("unit %s (%s)", containerdUnit, unit.active))
	}
	folders, err := h.broughtFolders(ctx, record, stays)
	if err != nil {
		return nil, err
	}
	files, err := h.existing(ctx, folders.gone...)
	if err != nil {
		return nil, err
	}
	for _, disk := range folders.disks {
		more, err := h.filesBelow(ctx, disk)
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	return append(left, named("file", files)...), nil
}

// filesBelow returns one file below a folder; none when there are only folders.
func (h *Host) filesBelow(ctx context.Context, folder string) ([]string, error) {
	output, err := h.run(ctx, "find", folder, "-mindepth", "1", "-not", "-type", "d", "-print0", "-quit")
	return list(output), err
}
