package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/hostcluster"
)

// AddHost adds the data centre's next host and joins it to the host cluster. When it fails or is interrupted, the lab has
// the hosts that it had before.
func (l *Lab) AddHost(ctx context.Context, progress func(string)) (*host.Host, error) {
	return l.add(ctx, newHost{group: host.SiteIDC}, progress, func(ctx context.Context, h *host.Host, set *artifacts.Set) error {
		if err := h.Boot(ctx); err != nil {
			return err
		}
		progress(h.Name + " booted")
		hosts, err := l.Hosts()
		if err != nil {
			return err
		}
		return hostcluster.JoinNode(ctx, l.clusterConfig(hosts, set, progress), h)
	})
}

// newHost says what is added: the next host of a group, for an owner, with a system of its own if it is a bare one.
type newHost struct{ group, owner, system string }

// add makes a host, and has it prepared. It returns a host that is prepared, or removes it.
func (l *Lab) add(ctx context.Context, n newHost, progress func(string), prepare func(context.Context, *host.Host, *artifacts.Set) error) (*host.Host, error) {
	var added *host.Host
	err := l.locked(ctx, func() error {
		hosts, err := l.Hosts()
		if err != nil {
			return err
		}
		if len(hosts) == 0 {
			return errors.New("the lab is not up: bring it up first")
		}
		set, err := l.Artifacts(ctx, progress)
		if err != nil {
			return err
		}
		h, err := host.New(l.network, l.state, nextName(n.group, hosts))
		if err != nil {
			return err
		}
		h.Owner, h.System = n.owner, n.system
		return orUndo(ctx, func(ctx context.Context) error {
			if err := l.createHost(ctx, h, set, progress); err != nil {
				return err
			}
			var err error
			if added, err = l.Host(h.Name); err != nil {
				return err
			}
			return prepare(ctx, added, set)
		}, func(ctx context.Context) error { return l.removeHost(ctx, h) })
	})
	if err != nil {
		return nil, err
	}
	return added, nil
}

// undoLimit is less than ginkgo waits for a node of a spec whose time is over.
const undoLimit = 25 * time.Second

// orUndo does something wholly or, as far as that can be undone, not at all, also when the context ends meanwhile.
func orUndo(ctx context.Context, do, undo func(context.Context) error) error {
	err := do(ctx)
	if err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	if undoErr := undo(ctx); undoErr != nil {
		return fmt.Errorf("%w; what is there of it could not be removed: %w", err, undoErr)
	}
	return err
}
