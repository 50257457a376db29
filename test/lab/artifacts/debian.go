package artifacts

import (
	"context"
	"maps"
	"path/filepath"
)

// EnsureDebian installs what is missing of the Debian packages that the lab needs on this machine and of the Debian system
// that its hosts run, as Ensure does, and returns the system's folder. Nothing may write into it. It needs root, and waits
// for others that build only when there is something to install.
func EnsureDebian(ctx context.Context, cacheDir string, progress func(string)) (string, error) {
	suite := DefaultVersions().Debian
	cache, err := filepath.Abs(cacheDir)
	if err != nil {
		return "", err
	}
	system, err := debianDir(cache, suite)
	if err != nil {
		return "", err
	}
	if exists(system) && len(missingOf(maps.Keys(machinePackages))) == 0 {
		return system, nil
	}
	cache, unlock, err := openCache(cache, progress)
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := installPackages(ctx, maps.Keys(machinePackages), progress); err != nil {
		return "", err
	}
	return buildDebian(ctx, cache, suite, progress)
}
