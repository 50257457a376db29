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
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/koksoftware"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/network"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
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
func leftovers(ctx context.Context, h *hosts.Host, record *records.Record) ([]string, error) {
	programs, err := h.Programs(ctx)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, look := range []func() ([]string, error){
		func() ([]string, error) { return unitsLeft(ctx, h) },
		func() ([]string, error) { return mountsLeft(ctx, h, record) },
		func() ([]string, error) { return network.Left(ctx, h, programs) },
		func() ([]string, error) { return network.RoutesLeft(ctx, h, record) },
		func() ([]string, error) { return containerd.Left(ctx, h, record, programs) },
		func() ([]string, error) { return filesLeft(ctx, h, record) },
		func() ([]string, error) { return accounts.Left(ctx, h, record) },
	} {
		left, err := look()
		if err != nil {
			return nil, err
		}
		all = append(all, left...)
	}
	return all, nil
}

func unitsLeft(ctx context.Context, h *hosts.Host) ([]string, error) {
	states, err := h.Units(ctx, nodeUnits...)
	if err != nil {
		return nil, err
	}
	var left []string
	for i, name := range nodeUnits {
		if states[i].Runs() {
			left = append(left, fmt.Sprintf("unit %s (%s)", name, states[i].Active))
		}
	}
	return left, nil
}

func mountsLeft(ctx context.Context, h *hosts.Host, record *records.Record) ([]string, error) {
	points, err := mounted(ctx, h, record)
	return hosts.Named("mount", points), err
}

func filesLeft(ctx context.Context, h *hosts.Host, record *records.Record) ([]string, error) {
	gone, emptied := split(record, nodePaths)
	paths, err := h.Existing(ctx, slices.Concat(gone, record.Added, []string{koksoftware.Dir})...)
	if err != nil {
		return nil, err
	}
	seeds, err := h.Existing(ctx, cloudinit.SeedDir, records.OriginalsDir+cloudinit.SeedDir)
	if err != nil {
		return nil, err
	}
	if len(seeds) == 1 && seeds[0] == cloudinit.SeedDir { // The host had no seed of its own.
		paths = append(paths, cloudinit.SeedDir)
	}
	for _, dir := range emptied {
		files, err := h.FileBelow(ctx, dir)
		if err != nil {
			return nil, err
		}
		paths = append(paths, files...)
	}
	return hosts.Named("file", paths), nil
}
