package containerd

import (
	"context"
	"slices"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

const (
	// containerdMetadata is containerd's list of images. Without this file it has none.
	containerdMetadata = containerdDir + "/io.containerd.metadata.v1.bolt/meta.db"
	// imagesAtOnce bounds the length of a command.
	imagesAtOnce = 100
)

// images are the names of kubelet's images.
func images(ctx context.Context, h *hosts.Host) ([]string, error) {
	output, err := h.Run(ctx, kubernetes("images", "list", "--quiet")...)
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(output)), nil
}

// noteImages returns the images on the host before it becomes a machine. The list is empty without containerd. It is nil,
// for unknown, when containerd does not run or ctr is missing.
func noteImages(ctx context.Context, h *hosts.Host) ([]string, error) {
	none := []string{}
	programs, err := h.Programs(ctx)
	if err != nil {
		return nil, err
	}
	hasCtr := slices.Contains(programs, "ctr")
	if !hasCtr && !slices.Contains(programs, "containerd") { // There is no containerd that could use old images.
		return none, nil
	}
	units, err := h.Units(ctx, onworker.ContainerdUnit)
	if err != nil {
		return nil, err
	}
	if hasCtr && units[0].Runs() {
		images, err := images(ctx, h)
		return append(none, images...), err
	}
	there, err := h.Existing(ctx, containerdMetadata)
	if err != nil || len(there) > 0 {
		return nil, err
	}
	return none, nil
}

// newImages are the images that noteImages did not see.
func newImages(ctx context.Context, h *hosts.Host, record *records.Record) ([]string, error) {
	images, err := images(ctx, h)
	return slices.DeleteFunc(images, func(image string) bool { return slices.Contains(record.Images, image) }), err
}

// RemoveImages removes the images that came with the machine: kubelet lets every pod use an image that is on the host, even
// one that needs a password to pull. When containerd itself came with the machine, Remove removes its images.
func RemoveImages(ctx context.Context, h *hosts.Host, record *records.Record, programs []string) error {
	if record.Images == nil || isNew(record) || !slices.Contains(programs, "ctr") {
		return nil
	}
	units, err := h.Units(ctx, onworker.ContainerdUnit)
	if err != nil {
		return err
	}
	if !units[0].Runs() {
		there, err := h.Existing(ctx, containerdMetadata)
		if err != nil || len(there) == 0 {
			return err
		}
		if err := h.Change(ctx, "systemctl", "start", onworker.ContainerdUnit); err != nil {
			return err
		}
	}
	images, err := newImages(ctx, h, record)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(images, imagesAtOnce) {
		if err := h.Change(ctx, kubernetes(append([]string{"images", "remove", "--sync"}, some...)...)...); err != nil {
			return err
		}
	}
	if slices.Contains(record.Added, onworker.UnitDir+onworker.ContainerdUnit) {
		err = h.Change(ctx, "systemctl", "stop", "--", onworker.ContainerdUnit)
	}
	return err
}

func imagesLeft(ctx context.Context, h *hosts.Host, record *records.Record, programs []string) ([]string, error) {
	if record.Images == nil || !slices.Contains(programs, "ctr") {
		return nil, nil
	}
	units, err := h.Units(ctx, onworker.ContainerdUnit)
	if err != nil || !units[0].Runs() { // RemoveImages started it if there were images to remove.
		return nil, err
	}
	images, err := newImages(ctx, h, record)
	return hosts.Named("image", images), err
}
