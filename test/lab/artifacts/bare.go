package artifacts

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
)

// bareSystems are what bare hosts may run: suites of Debian, by what hosts of them are called.
var bareSystems = map[string]string{"debian-12": "bookworm", "debian-13": "trixie"}

// barePackages are what a data centre has on a machine that installs its software itself: what its distribution brings, and
// what docs/data-centre-hosts.md asks for.
var barePackages = []string{
	"systemd", "systemd-sysv", "dbus", "udev", "kmod", "mount", "util-linux", "procps", "sudo",
	"cloud-init", "openssh-server", "ca-certificates", "curl",
	"iproute2", "iputils-ping", "netbase", "nftables", "conntrack",
}

// bareFiles are those of all hosts but what is containerd's.
//
//go:embed rootfs/etc/cloud rootfs/etc/systemd
var bareFiles embed.FS

// BareSystems are the names of systems that EnsureBare knows.
func BareSystems() []string { return slices.Sorted(maps.Keys(bareSystems)) }

// EnsureBare builds, unless it is in the cache folder, the root file system of hosts without a container runtime, kubelet and
// all that else comes with a machine's software, and returns its folder. Nothing may write into it.
func EnsureBare(ctx context.Context, cacheDir, system string, progress func(string)) (string, error) {
	suite, known := bareSystems[system]
	if !known {
		return "", fmt.Errorf("no bare host runs %q: there are %v", system, BareSystems())
	}
	cache, unlock, err := openCache(cacheDir, progress)
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := installPackages(ctx, maps.Keys(machinePackages), progress); err != nil {
		return "", err
	}
	dir, err := buildBare(ctx, cache, suite, progress)
	if err != nil {
		return "", fmt.Errorf("install the root file system of bare hosts with %s: %w", system, err)
	}
	return dir, nil
}

// buildBare installs a suite of Debian into a folder of the cache.
func buildBare(ctx context.Context, cache, suite string, progress func(string)) (string, error) {
	files, err := fs.Sub(bareFiles, "rootfs")
	if err != nil {
		return "", err
	}
	k, err := fsKey(files)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "rootfs", fmt.Sprintf("bare-%s-%s", suite, key(slices.Concat(barePackages, []string{k})...)))
	if exists(dir) {
		return dir, nil
	}
	progress(fmt.Sprintf("install the root file system of bare hosts with Debian %s (first time only)", suite))
	return dir, publish(dir, func(tmp string) error {
		if err := installDebian(ctx, suite, tmp, barePackages); err != nil {
			return err
		}
		if err := writeFiles(files, tmp); err != nil {
			return err
		}
		// Nothing of the lab reaches Debian's servers: a site without the internet has none in its lists either.
		if err := removeIfThere(filepath.Join(tmp, "etc/apt/sources.list")); err != nil {
			return err
		}
		return forgetIdentity(tmp)
	})
}
