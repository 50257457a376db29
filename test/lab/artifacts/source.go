package artifacts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/modfile"
)

// projectModule is the module that this package belongs to, by which the checkout is found.
const projectModule = "github.com/kube-on-kube/cluster-api-provider-kok"

// sourceRecipe builds programs from a module of its own in the checkout.
type sourceRecipe struct {
	name string
	// dir is the module's folder below the checkout.
	dir      string
	stamps   []string
	programs []program
}

// build compiles the recipe unless its folder is there, and returns the folder. The key covers the module's files.
func (r sourceRecipe) build(ctx context.Context, cache, goVersion, checkout string, progress func(string)) (string, error) {
	source := filepath.Join(checkout, r.dir)
	tree, err := treeKey(source)
	if err != nil {
		return "", err
	}
	env := []string{"CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly -trimpath -buildvcs=false"}
	compiled := recipe{stamps: r.stamps, programs: r.programs}
	parts := append([]string{goVersion, tree, compiled.linkFlags()}, env...)
	for _, p := range r.programs {
		parts = append(parts, p.name, p.pkg)
	}
	dir := filepath.Join(cache, "bin", r.name+"-"+key(parts...))
	if exists(dir) {
		return dir, nil
	}
	progress(fmt.Sprintf("build %s (after a change only)", r.name))
	err = publish(dir, func(tmp string) error { return compiled.compileWith(ctx, source, tmp, env) })
	if err != nil {
		return "", fmt.Errorf("build %s: %w", r.name, err)
	}
	return dir, nil
}

// localProvisionerRecipe builds the program that makes local volumes on every node of the host cluster.
func localProvisionerRecipe() sourceRecipe {
	const dir = "test/lab/images/local-provisioner"
	return sourceRecipe{name: "local-provisioner", dir: dir, programs: []program{{name: "local-provisioner", pkg: "."}}}
}

// checkout finds the root of the checkout above the working folder, or above this program's own file.
func findCheckout() (string, error) {
	var from []string
	if dir, err := os.Getwd(); err == nil {
		from = append(from, dir)
	}
	if file, err := os.Executable(); err == nil {
		from = append(from, filepath.Dir(file))
	}
	for _, dir := range from {
		for {
			data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
			if err == nil && modfile.ModulePath(data) == projectModule {
				return dir, nil
			}
			parent := filepath.Dir(dir)
			if parent == dir {
				break
			}
			dir = parent
		}
	}
	return "", errors.New("find the checkout of " + projectModule + ": run the lab from a folder in it")
}
