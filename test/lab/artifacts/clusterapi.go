package artifacts

import (
	"context"
	"path/filepath"
)

// EnsureClusterAPI builds the manager of Cluster API's core in the cache folder, as Ensure does, and returns the
// program's path. It is for those who need no lab, and waits for others that build only when there is something to build.
func EnsureClusterAPI(ctx context.Context, cacheDir string, progress func(string)) (string, error) {
	recipe := clusterAPIRecipe(DefaultVersions().ClusterAPI)
	goVersion, err := goToolVersion(ctx)
	if err != nil {
		return "", err
	}
	if programs := recipe.dir(cacheDir, goVersion); exists(programs) {
		return filepath.Abs(filepath.Join(programs, clusterAPIProgram))
	}
	programs := ""
	err = inCache(ctx, cacheDir, progress, func(cache, goVersion string) (err error) {
		programs, err = recipe.build(ctx, cache, goVersion, progress)
		return err
	})
	return filepath.Join(programs, clusterAPIProgram), err
}
