package artifacts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// EnsurePackage makes a package of Debian of kok-apiserver-lb as a release has it, with the program that makes those of
// releases, and returns its file in a folder.
func EnsurePackage(ctx context.Context, cacheDir, folder, balancer, version string, progress func(string)) (string, error) {
	checkout, err := findCheckout()
	if err != nil {
		return "", err
	}
	const name = "packages"
	packager := sourceRecipe{name: name, dir: "hack/tools/packages", programs: []program{{name: name, pkg: "."}}}
	var tool string
	err = inCache(ctx, cacheDir, progress, func(cache, goVersion string) (err error) {
		tool, err = packager.build(ctx, cache, goVersion, checkout, progress)
		return err
	})
	if err != nil {
		return "", err
	}
	_, err = run(ctx, command{name: filepath.Join(tool, name), args: []string{
		"--version=" + version, "--architecture=amd64", "--program=" + balancer, "--out=" + folder, "--time=1",
		"--unit=" + filepath.Join(checkout, "bootstrap/apiserverlb/unit/kok-apiserver-lb.service"),
		"--user-unit=" + filepath.Join(checkout, "bootstrap/apiserverlb/unit/kok-apiserver-lb@.service"),
	}})
	if err != nil {
		return "", fmt.Errorf("make a package of %s: %w", balancer, err)
	}
	files, err := os.ReadDir(folder)
	if err != nil {
		return "", err
	}
	for _, file := range files {
		if strings.HasSuffix(file.Name(), ".deb") {
			return filepath.Join(folder, file.Name()), nil
		}
	}
	return "", fmt.Errorf("the packager wrote no .deb into %s", folder)
}
