package artifacts

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// debianPackages of a host: what a machine in a data centre has before it becomes a node.
var debianPackages = []string{
	"systemd", "systemd-sysv", "dbus", "udev", "kmod", "mount", "util-linux", "procps", "sudo",
	"cloud-init", "openssh-server", "ca-certificates", "curl",
	"iproute2", "iputils-ping", "netbase", "ifupdown", "iptables", "nftables", "conntrack", "socat", "ethtool",
	"containerd", "runc", "containernetworking-plugins",
}

//go:embed rootfs
var hostFiles embed.FS

// debianDir is the folder of the Debian system alone.
func debianDir(cache, suite string) (string, error) {
	files, err := fs.Sub(hostFiles, "rootfs")
	if err != nil {
		return "", err
	}
	k, err := fsKey(files)
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "rootfs", fmt.Sprintf("debian-%s-%s", suite, key(append(debianPackages, k)...))), nil
}

// buildDebian installs Debian into a folder of the cache.
func buildDebian(ctx context.Context, cache, suite string, progress func(string)) (string, error) {
	dir, err := debianDir(cache, suite)
	if err != nil || exists(dir) {
		return dir, err
	}
	progress("install the hosts' Debian root file system (first time only)")
	err = publish(dir, func(tmp string) error {
		if err := installDebian(ctx, suite, tmp, debianPackages); err != nil {
			return err
		}
		return configureDebian(tmp)
	})
	if err != nil {
		return "", fmt.Errorf("install the root file system of hosts: %w", err)
	}
	return dir, nil
}

// installDebian installs a suite of Debian with packages into a folder.
func installDebian(ctx context.Context, suite, folder string, packages []string) error {
	_, err := run(ctx, command{name: "mmdebstrap", contained: true, args: []string{
		"--quiet", "--mode=root", "--variant=minbase", "--include=" + strings.Join(packages, ","),
		"--aptopt=APT::Install-Recommends \"false\"", suite, folder,
	}})
	return err
}

// configureDebian writes the configuration that all hosts share, and removes what each must have of its own.
func configureDebian(root string) error {
	files, err := fs.Sub(hostFiles, "rootfs")
	if err != nil {
		return err
	}
	if err := writeFiles(files, root); err != nil {
		return err
	}
	if err := forgetIdentity(root); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(root, "etc/cni/net.d")); err != nil {
		return err
	}
	// Who makes a host a node starts these, after their configuration is written.
	for _, unit := range []string{"containerd.service", "networking.service"} {
		if err := removeIfThere(filepath.Join(root, "etc/systemd/system/multi-user.target.wants", unit)); err != nil {
			return err
		}
	}
	return nil
}

// writeFiles copies files below a root.
func writeFiles(files fs.FS, root string) error {
	return fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		to := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return os.WriteFile(to, data, 0o644)
	})
}

// forgetIdentity removes what no two hosts may share.
func forgetIdentity(root string) error {
	keys, err := filepath.Glob(filepath.Join(root, "etc/ssh/ssh_host_*"))
	if err != nil {
		return err
	}
	for _, path := range keys {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	// An empty machine ID is made at boot; a missing one would count as the first boot of a new system.
	return os.WriteFile(filepath.Join(root, "etc/machine-id"), nil, 0o444)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// buildRoot lays the programs of the host cluster into /usr/local/bin of a copy of the Debian system. The copy is made
// of hard links: hosts lay their own disks over it and write nothing into it.
func buildRoot(ctx context.Context, cache, debian string, programs []string) (string, error) {
	dir := filepath.Join(cache, "rootfs", "host-"+key(append([]string{debian}, programs...)...))
	if exists(dir) {
		return dir, nil
	}
	err := publish(dir, func(tmp string) error {
		if err := linkTree(ctx, debian, tmp); err != nil {
			return err
		}
		for _, p := range programs {
			if err := os.Link(p, filepath.Join(tmp, "usr/local/bin", filepath.Base(p))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("make the base of the hosts' disks: %w", err)
	}
	return dir, nil
}
