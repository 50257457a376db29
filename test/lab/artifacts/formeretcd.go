package artifacts

import (
	"context"
	"path/filepath"
)

// EnsureFormerEtcd builds etcd of the minor before the lab's in the cache folder, as Ensure does, and returns the program's path. It
// is no part of a Set: one spec alone upgrades from it.
func EnsureFormerEtcd(ctx context.Context, cacheDir string, progress func(string)) (string, error) {
	programs, err := ensureOneOf(ctx, cacheDir, progress, formerEtcdRecipe(DefaultVersions().FormerEtcd))
	return filepath.Join(programs, formerEtcdProgram), err
}

const formerEtcdProgram = "etcd"

// formerEtcdRecipe builds the server alone.
func formerEtcdRecipe(version string) recipe {
	r := etcdRecipe(version)
	same := r.local
	r.local = func(path string) (string, error) {
		// It has a number of its own, which the server's go.mod requires already.
		if path == "go.etcd.io/etcd/client/v2" {
			return "", nil
		}
		return same(path)
	}
	r.also, r.programs = nil, []program{{name: formerEtcdProgram, pkg: r.module}}
	return r
}
