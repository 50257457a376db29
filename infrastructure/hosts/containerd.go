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

// containerdFolders are what containerd and CNI plugins bring to a host that has no containerd.
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

// noteFolders returns those of containerdFolders that the host has not, or has as an empty disk. There are none on a host
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

// newContainerd reports whether the host had nothing of containerd's before: containers and images all came with the machine.
func (r *Record) newContainerd() bool { return slices.Contains(r.Folders, containerdDir) }

// broughtFolders are the folders that came with the machine's containerd: those that go, disks of the host's own that stay
// empty, and what is mounted below them.
func (h *Host) broughtFolders(ctx context.Context, record *Record) (gone, disks, below []string, err error) {
	if len(record.Folders) == 0 {
		return nil, nil, nil, nil
	}
	points, err := h.mountsBelow(ctx, record.Folders...)
	for _, point := range points {
		if slices.Contains(record.Folders, point) {
			disks = append(disks, point)
		} else {
			below = append(below, point)
		}
	}
	gone = slices.DeleteFunc(slices.Clone(record.Folders), func(folder string) bool { return slices.Contains(disks, folder) })
	return gone, disks, below, err
}

// removeContainerd removes what a containerd left that came with the machine and is gone. One that stays, for packages do,
// loses the machine's containers and images.
func (h *Host) removeContainerd(ctx context.Context, record *Record) error {
	if len(record.Folders) == 0 {
		return nil
	}
	has, unit, err := h.hasContainerd(ctx)
	if err != nil {
		return err
	}
	if has {
		return h.emptyContainerd(ctx, record, unit)
	}
	if unit.runs() { // Its program is gone already.
		if _, err := h.run(ctx, "systemctl", "stop", "--", containerdUnit); err != nil {
			return err
		}
	}
	// tasksDir, which shows containers that run, is in one of the folders.
	running, err := h.containersLeft(ctx)
	if err != nil {
		return err
	}
	_, _, below, err := h.broughtFolders(ctx, record)
	if err != nil {
		return err
	}
	if len(running) > 0 {
		return fmt.Errorf("it stays, for there still run: %s; restart the host", strings.Join(running, "; "))
	}
	problem := h.unmountAll(ctx, below)
	gone, disks, below, err := h.broughtFolders(ctx, record)
	if err != nil {
		return errors.Join(problem, err)
	}
	if len(below) > 0 {
		return errors.Join(problem, fmt.Errorf("it stays, for %s is still mounted", tidy(strings.Join(below, ", "))))
	}
	for _, disk := range disks {
		if _, err := h.run(ctx, "find", disk, "-xdev", "-mindepth", "1", "-delete"); err != nil {
			return err
		}
	}
	return h.removePaths(ctx, gone...)
}

// emptyContainerd removes all containers, and images that came with the machine, from a containerd that stays.
func (h *Host) emptyContainerd(ctx context.Context, record *Record, unit unitState) error {
	programs, err := h.programs(ctx)
	if err != nil || !record.newContainerd() || !slices.Contains(programs, "ctr") {
		return err
	}
	if unit.runs() {
		err = h.removeContainers(ctx)
	}
	return errors.Join(err, h.removeNewImages(ctx, record))
}

// containerdLeft names what is left of a containerd that came with the machine.
func (h *Host) containerdLeft(ctx context.Context, record *Record) ([]string, error) {
	if len(record.Folders) == 0 {
		return nil, nil
	}
	has, unit, err := h.hasContainerd(ctx)
	if err != nil || has {
		return nil, err
	}
	var left []string
	if unit.runs() {
		left = append(left, fmt.Sprintf("unit %s (%s)", containerdUnit, unit.active))
	}
	gone, disks, _, err := h.broughtFolders(ctx, record)
	if err != nil {
		return nil, err
	}
	files, err := h.existing(ctx, gone...)
	if err != nil {
		return nil, err
	}
	for _, disk := range disks {
		more, err := h.filesBelow(ctx, disk)
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	return append(left, named("file", files)...), nil
}

// filesBelow is one thing in a folder that is no folder; none when there is nothing else.
func (h *Host) filesBelow(ctx context.Context, folder string) ([]string, error) {
	output, err := h.run(ctx, "find", folder, "-mindepth", "1", "-not", "-type", "d", "-print0", "-quit")
	return list(output), err
}
