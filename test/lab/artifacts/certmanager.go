package artifacts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/modfile"
)

const (
	certManagerModule = "github.com/cert-manager/cert-manager"
	certManagerDir    = "test/lab/images/cert-manager"
)

// certManagerPrograms run as pods; their images have these names too.
var certManagerPrograms = []string{"controller", "cainjector", "webhook"}

// certManagerRecipe composes cert-manager's programs from its packages.
func certManagerRecipe(version string) sourceRecipe {
	r := sourceRecipe{
		name: "cert-manager", dir: certManagerDir,
		stamps:   []string{certManagerModule + "/pkg/util.AppVersion=" + version},
		programs: []program{{name: "cert-manager-manifests", pkg: "./manifests"}},
	}
	for _, p := range certManagerPrograms {
		r.programs = append(r.programs, program{name: "cert-manager-" + p, pkg: "./" + p})
	}
	return r
}

// buildCertManager compiles cert-manager's programs and renders its manifests, and returns their folder.
func buildCertManager(ctx context.Context, cache, goVersion, checkout, version string, progress func(string)) (string, error) {
	data, err := os.ReadFile(filepath.Join(checkout, certManagerDir, "go.mod"))
	if err != nil {
		return "", err
	}
	mod, err := modfile.Parse("go.mod", data, nil)
	if err != nil {
		return "", err
	}
	for _, r := range mod.Require {
		if r.Mod.Path == certManagerModule && r.Mod.Version != version {
			return "", fmt.Errorf("%s requires cert-manager %s, but the lab wants %s: go get %s@%s there", certManagerDir, r.Mod.Version, version, certManagerModule, version)
		}
	}
	return certManagerRecipe(version).build(ctx, cache, goVersion, checkout, progress)
}

// renderCertManager writes the manifests of cert-manager's chart to a file of the cache. Its pods run in the cloud.
func renderCertManager(ctx context.Context, cache, programs, version string) (string, error) {
	file := filepath.Join(cache, "manifests", "cert-manager-"+version+"-"+key(programs)+".yaml")
	if exists(file) {
		return file, nil
	}
	source, err := downloadModule(ctx, certManagerModule, version)
	if err != nil {
		return "", err
	}
	args := []string{"--chart=" + filepath.Join(source, "deploy/charts/cert-manager"), "--version=" + version, "--zone=cloud"}
	out, err := run(ctx, command{name: filepath.Join(programs, "cert-manager-manifests"), args: args})
	if err != nil {
		return "", fmt.Errorf("render cert-manager's manifests: %w", err)
	}
	return file, publish(file, func(tmp string) error { return os.WriteFile(tmp, out, 0o644) })
}
