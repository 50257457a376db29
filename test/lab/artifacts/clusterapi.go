package artifacts

import (
	"context"
	"path/filepath"
)

// EnsureClusterAPI builds the manager of Cluster API's core in the cache folder, as Ensure does, and returns the
// program's path. It is for those who need no lab.
func EnsureClusterAPI(ctx context.Context, cacheDir string, progress func(string)) (string, error) {
	programs := ""
	err := inCache(ctx, cacheDir, progress, func(cache, goVersion string) (err error) {
		programs, err = clusterAPIRecipe(DefaultVersions().ClusterAPI).build(ctx, cache, goVersion, progress)
		return err
	})
	return filepath.Join(programs, clusterAPIProgram), err
}
