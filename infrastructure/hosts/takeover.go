package hosts

import (
	"context"
	"errors"
)

// endNode ends and removes the node on a host that a person allowed to take over. A kubelet that found the kubeconfig of its
// former cluster would rejoin that. Everything else stays on the host. It can be repeated.
func (h *Host) endNode(ctx context.Context, record *Record) error {
	programs, err := h.programs(ctx)
	if err != nil {
		return err
	}
	return errors.Join(take(ctx, []step{
		{"stop the units of a node", func(ctx context.Context) error { return h.stopUnits(ctx, record) }},
		{"remove pods", func(ctx context.Context) error { return h.removePods(ctx, record, programs) }},
		{"remove the pods' network", h.removeNetwork},
		{"remove packet filter rules", func(ctx context.Context) error { return h.removeRules(ctx, programs) }},
		{"unmount volumes", func(ctx context.Context) error { return h.unmount(ctx, record) }},
		{"remove a node's files", func(ctx context.Context) error { return h.removeNode(ctx, record) }},
	})...)
}
