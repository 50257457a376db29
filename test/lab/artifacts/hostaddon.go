package artifacts

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// HostAddon is something that a host cluster may have besides what every lab's has. It is no part of a Set: few who use
// the lab need it, and who installs it removes it again.
type HostAddon struct {
	// Images are what its pods ask for.
	Images []Image
	// Manifests is the file with all its objects.
	Manifests string
}

// overlays are what differs in the lab from the manifests that upstream publishes, a kustomization for each addon.
//
//go:embed overlays
var overlays embed.FS

// hostAddon says how a HostAddon is made.
type hostAddon struct {
	// recipe builds its programs; it gives the name of the overlay, and the module that has the manifests too.
	recipe recipe
	// manifests is the folder of the module that the overlay calls upstream.
	manifests string
	// images are made of the programs in a folder.
	images func(programs string) []Image
}

// ensure builds what is missing in the cache folder.
func (a hostAddon) ensure(ctx context.Context, cacheDir string, progress func(string)) (*HostAddon, error) {
	built := &HostAddon{}
	return built, inCache(ctx, cacheDir, progress, func(cache, goVersion string) error {
		programs, err := a.recipe.build(ctx, cache, goVersion, progress)
		if err != nil {
			return err
		}
		built.Images = a.images(programs)
		kustomize, err := kustomizeRecipe(DefaultVersions().Kustomize).build(ctx, cache, goVersion, progress)
		if err != nil {
			return err
		}
		built.Manifests, err = a.render(ctx, cache, filepath.Join(kustomize, "kustomize"))
		return err
	})
}

// render writes the manifests, as upstream publishes them and with what the overlay changes, to a file of the cache.
func (a hostAddon) render(ctx context.Context, cache, kustomize string) (string, error) {
	overlay, err := fs.Sub(overlays, "overlays/"+a.recipe.name)
	if err != nil {
		return "", err
	}
	content, err := fsKey(overlay)
	if err != nil {
		return "", err
	}
	file := filepath.Join(cache, "manifests", a.recipe.name+"-"+a.recipe.version+"-"+key(content, kustomize)+".yaml")
	if exists(file) {
		return file, nil
	}
	source, err := downloadModule(ctx, a.recipe.module, a.recipe.version)
	if err != nil {
		return "", err
	}
	work, err := os.MkdirTemp("", "kok-manifests-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work) //nolint:errcheck // a temporary directory
	// What an overlay builds on must lie beside it.
	if err := os.CopyFS(work, overlay); err != nil {
		return "", err
	}
	if err := os.CopyFS(filepath.Join(work, "upstream"), os.DirFS(filepath.Join(source, a.manifests))); err != nil {
		return "", err
	}
	manifests, err := run(ctx, command{name: kustomize, args: []string{"build", work}})
	if err != nil {
		return "", fmt.Errorf("render the manifests of %s %s: %w", a.recipe.name, a.recipe.version, err)
	}
	return file, publish(file, func(tmp string) error { return os.WriteFile(tmp, manifests, 0o644) })
}
