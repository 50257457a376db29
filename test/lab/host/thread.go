package host

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

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

// InMounts runs f on a thread that stands among the host's mounts: paths are those of the host. The host has power.
func (h *Host) InMounts(f func() error) error {
	r, err := h.loadRun()
	if err != nil {
		return err
	}
	return isolation.OnThread(func() error {
		mounts, err := os.Open(filepath.Join("/proc", strconv.Itoa(r.Init.PID), "ns/mnt"))
		if err != nil {
			return fmt.Errorf("mounts of %s (has it power?): %w", h.Name, err)
		}
		defer mounts.Close() //nolint:errcheck // only a descriptor
		// Threads of a program share where they stand, which the kernel does not let one of them change alone.
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return fmt.Errorf("enter the mounts of %s: %w", h.Name, err)
		}
		if err := unix.Setns(int(mounts.Fd()), unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("enter the mounts of %s: %w", h.Name, err)
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
