package artifacts

import (
	"context"
	"path/filepath"
)

// EnsureClusterAPI builds the manager of Cluster API's core in the cache folder, as Ensure does, and returns the
// program's path. It is for those who need no lab, and waits for others that build only when there is something to build.
func EnsureClusterAPI(ctx context.Context, cacheDir string, progress func(string)) (string, error) {
	programs, err := ensureOneOf(ctx, cacheDir, progress, clusterAPIRecipe(DefaultVersions().ClusterAPI))
	return filepath.Join(programs, clusterAPIProgram), err
}
