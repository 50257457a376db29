package hosts

import (
	"context"
	"slices"
	"strings"
)

const (
	// containerdMetadata is containerd's list of images. Without this file it has none.
	containerdMetadata = containerdDir + "/io.containerd.metadata.v1.bolt/meta.db"
	// imagesAtOnce bounds the length of a command.
	imagesAtOnce = 100
)

// images are the names of kubelet's images.
func (h *Host) images(ctx context.Context) ([]string, error) {
	output, err := h.run(ctx, kubernetes("images", "list", "--quiet")...)
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(output)), nil
}

// noteImages returns the images on the host before it becomes a machine. The list is empty without containerd. It is nil,
// for unknown, when containerd does not run or ctr is missing.
func (h *Host) noteImages(ctx context.Context) ([]string, error) {
	none := []string{}
	programs, err := h.programs(ctx)
	if err != nil {
		return nil, err
	}
	hasCtr := slices.Contains(programs, "ctr")
	if !hasCtr && !slices.Contains(programs, "containerd") { // There is no containerd that could use old images.
		return none, nil
	}
	units, err := h.units(ctx, containerdUnit)
	if err != nil {
		return nil, err
	}
	if hasCtr && units[0].runs() {
		images, err := h.images(ctx)
		return append(none, images...), err
	}
	there, err := h.existing(ctx, containerdMetadata)
	if err != nil || len(there) > 0 {
		return nil, err
	}
	return none, nil
}

// newImages are the images that noteImages did not see.
func (h *Host) newImages(ctx context.Context, record *Record) ([]string, error) {
	images, err := h.images(ctx)
	return slices.DeleteFunc(images, func(image string) bool { return slices.Contains(record.Images, image) }), err
}

// removeImages removes the images that came with the machine: kubelet lets every pod use an image that is on the host, even
// one that needs a password to pull. When containerd itself came with the machine, removeContainerd removes its images.
func (h *Host) removeImages(ctx context.Context, record *Record, programs []string) error {
	if record.Images == nil || record.newContainerd() || !slices.Contains(programs, "ctr") {
		return nil
	}
	units, err := h.units(ctx, containerdUnit)
	if err != nil {
		return err
	}
	if !units[0].runs() {
		there, err := h.existing(ctx, containerdMetadata)
		if err != nil || len(there) == 0 {
			return err
		}
		if _, err := h.run(ctx, "systemctl", "start", containerdUnit); err != nil {
			return err
		}
	}
	images, err := h.newImages(ctx, record)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(images, imagesAtOnce) {
		if _, err := h.run(ctx, kubernetes(append([]string{"images", "remove", "--sync"}, some...)...)...); err != nil {
			return err
		}
	}
	if brought, _ := record.brought(); slices.Contains(brought, containerdUnit) {
		_, err = h.run(ctx, "systemctl", "stop", "--", containerdUnit)
	}
	return err
}
