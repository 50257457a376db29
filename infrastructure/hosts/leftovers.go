package hosts

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
)

// UncleanError says what a clean-up left behind.
type UncleanError struct {
	// Left names each thing, for people.
	Left []string
	// NoRecord is true for a host without Record: nothing was changed on it, and it may never have been a machine of ours.
	NoRecord bool
}

func (e *UncleanError) Error() string {
	return "after the clean-up there still is: " + strings.Join(e.Left, "; ")
}

// leftovers names what is still on the host and must not be on a clean one. Programs of the machine are gone by now.
func (h *Host) leftovers(ctx context.Context, record *Record) ([]string, error) {
	programs, err := h.programs(ctx)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, look := range []func() ([]string, error){
		func() ([]string, error) { return h.unitsLeft(ctx) },
		func() ([]string, error) { return h.mountsLeft(ctx, record) },
		func() ([]string, error) { return h.linksLeft(ctx) },
		func() ([]string, error) { return h.rulesLeft(ctx, programs) },
		func() ([]string, error) { return h.containersLeft(ctx) },
		func() ([]string, error) { return h.imagesLeft(ctx, record, programs) },
		func() ([]string, error) { return h.containerdLeft(ctx, record) },
		func() ([]string, error) { return h.filesLeft(ctx, record) },
		func() ([]string, error) { return h.usersLeft(ctx, record) },
	} {
		left, err := look()
		if err != nil {
			return nil, err
		}
		all = append(all, left...)
	}
	return all, nil
}

func (h *Host) unitsLeft(ctx context.Context) ([]string, error) {
	states, err := h.units(ctx, nodeUnits...)
	if err != nil {
		return nil, err
	}
	var left []string
	for i, name := range nodeUnits {
		if states[i].runs() {
			left = append(left, fmt.Sprintf("unit %s (%s)", name, states[i].active))
		}
	}
	return left, nil
}

func (h *Host) mountsLeft(ctx context.Context, record *Record) ([]string, error) {
	points, err := h.mounted(ctx, record)
	return named("mount", points), err
}

func (h *Host) linksLeft(ctx context.Context) ([]string, error) {
	links, err := h.links(ctx)
	return named("network device", links), err
}

func (h *Host) containersLeft(ctx context.Context) ([]string, error) {
	tasks, err := h.entries(ctx, tasksDir)
	for i, task := range tasks {
		tasks[i] = path.Base(task)
	}
	return named("container", tasks), err
}

func (h *Host) imagesLeft(ctx context.Context, record *Record, programs []string) ([]string, error) {
	if record.Images == nil || !slices.Contains(programs, "ctr") {
		return nil, nil
	}
	units, err := h.units(ctx, containerdUnit)
	if err != nil || !units[0].runs() { // removeImages started it if there were images to remove.
		return nil, err
	}
	images, err := h.newImages(ctx, record)
	return named("image", images), err
}

func (h *Host) filesLeft(ctx context.Context, record *Record) ([]string, error) {
	gone, emptied := record.split(nodePaths)
	paths, err := h.existing(ctx, slices.Concat(gone, record.Added, []string{softwareDir})...)
	if err != nil {
		return nil, err
	}
	seeds, err := h.existing(ctx, seedDir, originalsDir+seedDir)
	if err != nil {
		return nil, err
	}
	if len(seeds) == 1 && seeds[0] == seedDir { // The host had no seed of its own.
		paths = append(paths, seedDir)
	}
	for _, dir := range emptied {
		files, err := h.filesBelow(ctx, dir)
		if err != nil {
			return nil, err
		}
		paths = append(paths, files...)
	}
	return named("file", paths), nil
}

func (h *Host) usersLeft(ctx context.Context, record *Record) ([]string, error) {
	var left []string
	for _, name := range record.Users {
		if _, there, err := h.user(ctx, name); err != nil {
			return nil, err
		} else if there {
			left = append(left, name)
		}
	}
	files, err := h.keysLeft(ctx, record)
	return append(named("user", left), named("SSH keys in", files)...), err
}

// named says for people what each thing is.
func named(kind string, things []string) []string {
	var texts []string
	for _, thing := range things {
		texts = append(texts, kind+" "+tidy(thing))
	}
	return texts
}
