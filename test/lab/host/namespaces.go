package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/isolation"
)

// namespaces is where the machine's named network namespaces are, each as a mount on a file.
const namespaces = "/run/netns"

// prepareNamespaces makes a folder for namespaces a shared mount, as ip-netns(8) does before it adds one. Done over
// namespaces that are there, it leaves them mounted beneath as well, where nobody can remove them: so it is done before
// the first. The mount stays: nobody can know who else relies on it.
func prepareNamespaces(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	// ip(8) takes this lock too, so that the folder is mounted once.
	lock, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // only a descriptor
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", folder, err)
	}
	share := func() error { return unix.Mount("", folder, "none", unix.MS_SHARED|unix.MS_REC, "") }
	err = share()
	if errors.Is(err, unix.EINVAL) { // it is no mount yet
		if late, err := hasNamespaces(folder); late || err != nil {
			return err
		}
		if err := unix.Mount(folder, folder, "none", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("mount %s on itself: %w", folder, err)
		}
		err = share()
	}
	if err != nil {
		return fmt.Errorf("share the mount %s: %w", folder, err)
	}
	return nil
}

func hasNamespaces(folder string) (bool, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return false, err
	}
	for _, entry := range entries {
		var fs unix.Statfs_t
		if err := unix.Statfs(filepath.Join(folder, entry.Name()), &fs); err == nil && fs.Type == unix.NSFS_MAGIC {
			return true, nil
		}
	}
	return false, nil
}

// ensureNamespace makes a named network namespace, if it is not there.
func ensureNamespace(name string) error {
	if handle, err := netns.GetFromName(name); err == nil {
		var fs unix.Statfs_t
		defer handle.Close() //nolint:errcheck // only a descriptor
		if err := unix.Fstatfs(int(handle), &fs); err == nil && fs.Type == unix.NSFS_MAGIC {
			return nil
		}
		// A file that an interrupted creation left behind.
		if err := os.Remove(filepath.Join(namespaces, name)); err != nil {
			return fmt.Errorf("remove unfinished network namespace %s: %w", name, err)
		}
	}
	if err := prepareNamespaces(namespaces); err != nil {
		return err
	}
	err := isolation.OnThread(func() error {
		handle, err := netns.NewNamed(name)
		if err == nil {
			err = handle.Close()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("make network namespace %s: %w", name, err)
	}
	return nil
}

// removeNamespace removes a named network namespace; none is fine.
func removeNamespace(name string) error {
	path := filepath.Join(namespaces, name)
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount network namespace %s: %w", name, err)
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("remove network namespace %s: %w", name, err)
	}
	return nil
}
