package artifacts

import (
	"context"
	"path/filepath"
)

// EnsureS3 builds an S3 server in the cache folder, as Ensure does, from the module that envtests have it from, and returns the
// program's path. It is no part of a Set: few specs need it.
func EnsureS3(ctx context.Context, cacheDir string, progress func(string)) (string, error) {
	checkout, err := findCheckout()
	if err != nil {
		return "", err
	}
	server, folder := s3Recipe(), ""
	err = inCache(ctx, cacheDir, progress, func(cache, goVersion string) (err error) {
		folder, err = server.build(ctx, cache, goVersion, checkout, progress)
		return err
	})
	return filepath.Join(folder, s3Program), err
}

const s3Program = "versitygw"

func s3Recipe() sourceRecipe {
	return sourceRecipe{
		name: s3Program, dir: "hack/tools/versitygw",
		programs: []program{{name: s3Program, pkg: "github.com/versity/versitygw/cmd/versitygw"}},
	}
}
