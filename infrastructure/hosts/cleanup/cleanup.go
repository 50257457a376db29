// Package cleanup notes in the Record what a machine will change on a host, before anything changes, and later makes the host
// a plain host again: nothing of the machine is left, and what it replaced is back. A clean-up that was cut off is repeated.
// The Record goes last, and only when nothing is left.
package cleanup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cloudinit"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/containerd"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/koksoftware"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/network"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/ownership"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

// Run makes a host a plain host again, verifies that, and then removes the Record. A host without Record was never changed,
// or is clean already, unless it has files of a node. The error is an *ownership.InUseError when the host carries another
// machine, and contains an *UncleanError when something is left.
func Run(ctx context.Context, h *hosts.Host, instanceID string) error {
	record, err := records.Read(ctx, h)
	if err != nil {
		return err
	}
	if record == nil {
		return untouched(ctx, h)
	}
	if record.InstanceID != instanceID {
		return &ownership.InUseError{Record: record}
	}
	programs, err := h.Programs(ctx)
	if err != nil {
		return err
	}
	problems := take(ctx, steps(h, record, programs))
	if ctx.Err() != nil {
		return errors.Join(problems...)
	}
	left, err := leftovers(ctx, h, record)
	if err != nil {
		problems = append(problems, fmt.Errorf("verify that the host is clean: %w", err))
	}
	if len(left) > 0 {
		problems = append(problems, &UncleanError{Left: left})
	}
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	return h.Remove(ctx, records.Dir)
}

// steps are in an order in which each still finds the programs that it needs: containerd goes after its containers.
func steps(h *hosts.Host, record *records.Record, programs []string) []step {
	var imagesStay error
	return []step{
		{"stop the units of a node", func(ctx context.Context) error { return stopUnits(ctx, h, record) }},
		{"remove pods", func(ctx context.Context) error { return containerd.RemovePods(ctx, h, record, programs) }},
		{"remove pods' images", func(ctx context.Context) error {
			imagesStay = containerd.RemoveImages(ctx, h, record, programs)
			return imagesStay
		}},
		{"remove the pods' network", func(ctx context.Context) error { return network.Remove(ctx, h) }},
		{"remove routes to pods", func(ctx context.Context) error { return network.RemoveRoutes(ctx, h, record) }},
		{"remove packet filter rules", func(ctx context.Context) error { return network.RemoveRules(ctx, h, programs) }},
		{"unmount volumes", func(ctx context.Context) error { return unmount(ctx, h, record) }},
		{"remove the software of the machine", func(ctx context.Context) error {
			if imagesStay != nil { // Only the machine's containerd can remove them.
				return errors.New("it stays, for the pods' images could not be removed")
			}
			return koksoftware.Remove(ctx, h, koksoftware.Dir, nodeRuns)
		}},
		{"reset cloud-init", func(ctx context.Context) error { return cloudinit.Reset(ctx, h, record) }},
		{"remove a node's files", func(ctx context.Context) error { return removeNode(ctx, h, record) }},
		{"take back what cloud-init wrote", func(ctx context.Context) error { return takeBack(ctx, h, record) }},
		{"reload systemd", func(ctx context.Context) error { return reload(ctx, h, record) }},
		{"remove the machine's containerd", func(ctx context.Context) error { return containerd.Remove(ctx, h, record) }},
	}
}

// untouched fails for a host without Record that has files which every node has: without the Record nobody knows what else
// is left. A bootstrap that ended before it wrote the Record has changed nothing; only its notes are removed.
func untouched(ctx context.Context, h *hosts.Host) error {
	there, err := h.Existing(ctx, onworker.Kubeconfig, onworker.SentinelFile, koksoftware.Dir, records.Dir)
	if err != nil || len(there) == 0 {
		return err
	}
	ofNode := slices.DeleteFunc(there, func(file string) bool { return file == records.Dir })
	if len(ofNode) == 0 {
		return h.Remove(ctx, records.Dir)
	}
	left := hosts.Named("file", ofNode)
	left[len(left)-1] += ", and " + records.File + ", which says what else came with the machine, is gone"
	return &UncleanError{Left: left, NoRecord: true}
}
