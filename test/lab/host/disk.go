package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

// ownDirectories of a host are plain directories of the machine, not layers over the base: containers' own overlays
// cannot lie on an overlay, and what is in them is read from outside (logs) or must be fast (etcd).
var ownDirectories = []string{
	"/var/lib/containerd",
	"/var/lib/kubelet",
	"/var/lib/etcd",
	"/var/lib/local-volumes",
	"/var/log",
}

// DiskPath is where a path of the host's disk lies on the machine. It is valid while the host exists for paths below
// the host's own directories (/var/log, /var/lib/containerd, /var/lib/kubelet, /var/lib/etcd, /var/lib/local-volumes),
// for others while its disk is mounted.
func (h *Host) DiskPath(path string) string {
	path = filepath.Clean("/" + path)
	for _, d := range ownDirectories {
		if path == d || strings.HasPrefix(path, d+"/") {
			return h.path("own", filepath.FromSlash(path))
		}
	}
	return h.path("root", path)
}

// WriteFile writes a file on the host's disk, with the directories above it; it works before and after boot. Files on
// the host's temporary file systems (/run, /tmp) are not on its disk.
func (h *Host) WriteFile(path string, data []byte, mode fs.FileMode) error {
	name := filepath.Clean("/" + path)
	if err := h.mount(); err != nil {
		return err
	}
	base, rest := h.path("root"), name
	for _, d := range ownDirectories {
		if strings.HasPrefix(name, d+"/") {
			base, rest = h.path("own", d), strings.TrimPrefix(name, d)
		}
	}
	root, err := os.OpenRoot(base)
	if err != nil {
		return fmt.Errorf("write %s on %s: %w", name, h.Name, err)
	}
	defer root.Close() //nolint:errcheck // only a descriptor
	rest = strings.TrimPrefix(rest, "/")
	if err := root.MkdirAll(filepath.Dir(rest), 0o755); err != nil {
		return fmt.Errorf("write %s on %s: %w", name, h.Name, err)
	}
	// A new file each time: a unit may be masked by a link to /dev/null.
	if err := root.Remove(rest); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write %s on %s: %w", name, h.Name, err)
	}
	if err := root.WriteFile(rest, data, mode); err != nil {
		return fmt.Errorf("write %s on %s: %w", name, h.Name, err)
	}
	return root.Chmod(rest, mode)
}

// Symlink makes a symbolic link on the host's disk, in place of what was there.
func (h *Host) Symlink(target, path string) error {
	if err := h.mount(); err != nil {
		return err
	}
	root, err := os.OpenRoot(h.path("root"))
	if err != nil {
		return fmt.Errorf("link %s on %s: %w", path, h.Name, err)
	}
	defer root.Close() //nolint:errcheck // only a descriptor
	name := strings.TrimPrefix(filepath.Clean("/"+path), "/")
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("link %s on %s: %w", path, h.Name, err)
	}
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("link %s on %s: %w", path, h.Name, err)
	}
	if err := root.Symlink(target, name); err != nil {
		return fmt.Errorf("link %s on %s: %w", path, h.Name, err)
	}
	return nil
}

// Create makes the host's disk over a base root file system and records the host. Doing it again changes nothing on a
// host that exists. Nothing runs yet.
func (h *Host) Create(baseRoot string) error {
	if old, err := Load(h.network, filepath.Dir(filepath.Dir(h.directory)), h.Name); err == nil {
		*h = *old
		return nil
	}
	for _, path := range []string{baseRoot, h.directory} {
		if strings.ContainsAny(path, ":,\\") {
			return fmt.Errorf("directory %s cannot be a host's disk: its name has one of : , \\", path)
		}
	}
	if _, err := os.Stat(filepath.Join(baseRoot, "usr/lib/systemd/systemd")); err != nil {
		return fmt.Errorf("base root file system of %s: %w", h.Name, err)
	}
	h.BaseRoot = baseRoot
	for _, d := range ownDirectories {
		if err := os.MkdirAll(h.path("own", d), 0o755); err != nil {
			return err
		}
	}
	if err := h.mount(); err != nil {
		return err
	}
	if err := h.configure(); err != nil {
		return err
	}
	return h.save()
}

// Fill gives one of the host's own directories its first content, once and whole: an interrupted fill begins anew, a
// directory that was filled stays as the host left it. It is done before the host boots.
func (h *Host) Fill(path string, fill func(directory string) error) error {
	target := h.DiskPath(path)
	done := h.path("filled", path)
	if _, err := os.Stat(done); err == nil {
		return nil
	}
	if h.Booted() {
		return fmt.Errorf("fill %s of %s: the host is running", path, h.Name)
	}
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	for _, d := range []string{target, done} {
		if err := os.MkdirAll(filepath.Dir(d), 0o755); err != nil {
			return err
		}
	}
	if err := fill(target); err != nil {
		return fmt.Errorf("fill %s of %s: %w", path, h.Name, err)
	}
	return os.WriteFile(done, nil, 0o644)
}

// Rebase lays the disk of a host without power over another base: what the host wrote stays.
func (h *Host) Rebase(ctx context.Context, baseRoot string) error {
	if h.Booted() {
		return fmt.Errorf("renew the base of the disk of %s: the host is running", h.Name)
	}
	if err := h.unmount(ctx); err != nil {
		return err
	}
	h.BaseRoot = baseRoot
	return h.save()
}

// RebaseAtBoot has the disk be laid over another base from the next boot on, also that of a running host.
func (h *Host) RebaseAtBoot(baseRoot string) error {
	h.BaseRoot = baseRoot
	return h.save()
}

// mount lays the host's disk over its base at <host>/root, if it is not there.
func (h *Host) mount() error {
	target := h.path("root")
	if isMountPoint(target) {
		return nil
	}
	if _, err := os.Stat(h.BaseRoot); err != nil {
		return fmt.Errorf("base of the disk of %s: %w (run down --purge and up again)", h.Name, err)
	}
	for _, d := range []string{"root", "upper", "work"} {
		if err := os.MkdirAll(h.path(d), 0o755); err != nil {
			return err
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", h.BaseRoot, h.path("upper"), h.path("work"))
	if err := unix.Mount("overlay", target, "overlay", 0, options); err != nil {
		return fmt.Errorf("mount the disk of %s: %w", h.Name, err)
	}
	return nil
}

// unmount takes the disk off. What dies may hold it for a moment; what still does then keeps it until it ends.
func (h *Host) unmount(ctx context.Context) error {
	target := h.path("root")
	if !isMountPoint(target) {
		return nil
	}
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Second, true, func(context.Context) (bool, error) {
		err := unix.Unmount(target, 0)
		if errors.Is(err, unix.EBUSY) {
			return false, nil
		}
		return err == nil, err
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		err = unix.Unmount(target, unix.MNT_DETACH)
	}
	if err != nil {
		return fmt.Errorf("unmount the disk of %s: %w", h.Name, err)
	}
	return nil
}

func isMountPoint(path string) bool {
	data, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return false
	}
	return slices.ContainsFunc(strings.Split(string(data), "\n"), func(line string) bool {
		f := strings.Fields(line)
		return len(f) > 1 && f[1] == path
	})
}

// machineID is the host's /etc/machine-id, the same each time it is made.
func (h *Host) machineID() string {
	sum := sha256.Sum256([]byte("kube-on-kube lab host " + h.Name))
	return hex.EncodeToString(sum[:16])
}
