package probe

import (
	"context"
	"fmt"
	"net"
	"runtime"

	"github.com/vishvananda/netns"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// Namespace is a network namespace of this machine that connections are opened from.
type Namespace struct {
	calls chan func()
}

// OpenNamespace enters the network namespace of one of the lab's hosts, with a thread of its own.
func OpenNamespace(h *host.Host) (*Namespace, error) {
	name := host.DefaultNetwork().Prefix + "-" + h.Name
	n := &Namespace{calls: make(chan func())}
	entered := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		entered <- enter(name)
		for call := range n.calls {
			call()
		}
	}()
	if err := <-entered; err != nil {
		n.Close()
		return nil, fmt.Errorf("enter network namespace %s: %w", name, err)
	}
	return n, nil
}

func enter(name string) error {
	handle, err := netns.GetFromName(name)
	if err != nil {
		return err
	}
	defer handle.Close() //nolint:errcheck // only a descriptor
	return netns.Set(handle)
}

// DialContext opens a connection from the namespace.
func (n *Namespace) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	type result struct {
		connection net.Conn
		err        error
	}
	done := make(chan result, 1)
	select {
	case n.calls <- func() {
		connection, err := Direct()(ctx, network, address)
		done <- result{connection, err}
	}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r := <-done
	return r.connection, r.err
}

// Close leaves the namespace; connections stay open.
func (n *Namespace) Close() { close(n.calls) }
