package artifacts

import (
	"context"
	"path/filepath"
)

// EnsureRegistry builds a container registry in the cache folder, as Ensure does, and returns the program's path. It is no
// part of a Set: hosts have their images already.
func EnsureRegistry(ctx context.Context, cacheDir string, progress func(string)) (string, error) {
	programs, err := ensureOneOf(ctx, cacheDir, progress, registryRecipe(DefaultVersions().Registry))
	return filepath.Join(programs, registryProgram), err
}

const registryProgram = "registry"

func registryRecipe(version string) recipe {
	return recipe{
		name: "distribution", module: "github.com/distribution/distribution/v3", version: version,
		local:    func(string) (string, error) { return "", nil },
		programs: []program{{name: registryProgram, pkg: "github.com/distribution/distribution/v3/cmd/registry"}},
	}
}
