package artifacts

import (
	"context"
	"path/filepath"
)

const apiServerProgram = "kube-apiserver"

// APIServer is what tests start an API server with that needs no lab.
type APIServer struct {
	// Etcd and KubeAPIServer are programs for this machine, of the newest versions.
	Etcd, KubeAPIServer string
}

// EnsureAPIServer builds what is missing in the cache folder, as Ensure does. What the lab built is used. It needs neither
// root nor Debian, and waits for others that build only when there is something to build.
func EnsureAPIServer(ctx context.Context, cacheDir string, progress func(string)) (*APIServer, error) {
	v := DefaultVersions()
	lab, err := kubernetesRecipe(v.Host, hostPrograms...)
	if err != nil {
		return nil, err
	}
	alone, err := kubernetesRecipe(v.Host, apiServerProgram)
	if err != nil {
		return nil, err
	}
	etcd, err := ensureOneOf(ctx, cacheDir, progress, etcdRecipe(v.Etcd))
	if err != nil {
		return nil, err
	}
	kubernetes, err := ensureOneOf(ctx, cacheDir, progress, alone, lab)
	if err != nil {
		return nil, err
	}
	return &APIServer{Etcd: filepath.Join(etcd, "etcd"), KubeAPIServer: filepath.Join(kubernetes, apiServerProgram)}, nil
}

// EnsureKubectl builds kubectl of the newest version, unless the cache folder has it, as EnsureAPIServer does.
func EnsureKubectl(ctx context.Context, cacheDir string, progress func(string)) (string, error) {
	const kubectl = "kubectl"
	version := DefaultVersions().Host
	lab, err := kubernetesRecipe(version, hostPrograms...)
	if err != nil {
		return "", err
	}
	alone, err := kubernetesRecipe(version, kubectl)
	if err != nil {
		return "", err
	}
	folder, err := ensureOneOf(ctx, cacheDir, progress, alone, lab)
	return filepath.Join(folder, kubectl), err
}

// ensureOneOf returns the folder of one of some recipes that build the same programs. It builds the first if the cache
// has none of them.
func ensureOneOf(ctx context.Context, cacheDir string, progress func(string), recipes ...recipe) (string, error) {
	cache, err := filepath.Abs(cacheDir)
	if err != nil {
		return "", err
	}
	goVersion, err := goToolVersion(ctx)
	if err != nil {
		return "", err
	}
	if folder := built(cache, goVersion, recipes...); folder != "" {
		return folder, nil
	}
	folder := ""
	err = inCache(ctx, cache, progress, func(cache, goVersion string) (err error) {
		// The process that this one waited for may have built it.
		if folder = built(cache, goVersion, recipes...); folder == "" {
			folder, err = recipes[0].build(ctx, cache, goVersion, progress)
		}
		return err
	})
	return folder, err
}

// built returns the folder of the first recipe that the cache has, or nothing.
func built(cache, goVersion string, recipes ...recipe) string {
	for _, r := range recipes {
		if folder := r.dir(cache, goVersion); exists(folder) {
			return folder
		}
	}
	return ""
}
