package host

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/vishvananda/netns"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/isolation"
)

// inNamespace runs f in the named network namespace.
func inNamespace(name string, f func() error) error {
	return isolation.OnThread(func() error {
		handle, err := netns.GetFromName(name)
		if err != nil {
			return fmt.Errorf("network namespace %s: %w", name, err)
		}
		defer handle.Close() //nolint:errcheck // only a descriptor
		if err := netns.Set(handle); err != nil {
			return fmt.Errorf("enter network namespace %s: %w", name, err)
		}
		return f()
	})
}

// Dial opens a connection from inside the host: 127.0.0.1 is the host's own. The address is one of IP, no name.
func (h *Host) Dial(ctx context.Context, network, address string) (connection net.Conn, err error) {
	err = inNamespace(h.namespace(), func() error {
		connection, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return connection, err
}

// setNetworkParameters writes values below /proc/sys/net of a namespace; a parameter that the kernel lacks is left out.
func setNetworkParameters(namespace string, values map[string]string) error {
	return inNamespace(namespace, func() error {
		for name, value := range values {
			path := filepath.Join("/proc/sys/net", name)
			if _, err := os.Stat(path); os.IsNotExist(err) {
				continue
			}
			if err := os.WriteFile(path, []byte(value), 0); err != nil {
				return fmt.Errorf("set net/%s in namespace %s: %w", name, namespace, err)
			}
		}
		return nil
	})
}
