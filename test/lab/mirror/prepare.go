package mirror

import (
	"context"
	"os"
	"path/filepath"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
)

// Sources say what content is made of.
type Sources struct {
	// Kubernetes are the versions of which there is a kubelet.
	Kubernetes []string
	// Programs is the folder with this project's programs, and ReleaseVersion the version that they are released as.
	Programs, ReleaseVersion string
	// Images are those of workers.
	Images []artifacts.Image
	// WithoutPackages leaves out the repository of apt: the load balancer of workers is a program alone.
	WithoutPackages bool
}

// Prepare builds what is missing of upstream's programs in the lab's cache, and writes all else into a folder, which mirrors
// serve from. It has a repository of apt with the load balancer of workers, unless the sources say otherwise.
func Prepare(ctx context.Context, folder string, s Sources, progress func(string)) (Content, error) {
	content := Content{Release: filepath.Join(folder, "release"), ReleaseVersion: s.ReleaseVersion, Images: s.Images}
	if err := os.MkdirAll(content.Release, 0o755); err != nil {
		return content, err
	}
	if err := WriteRelease(content.Release, s.Programs); err != nil {
		return content, err
	}
	cache, err := artifacts.CacheDir()
	if err != nil {
		return content, err
	}
	if content.Upstream, err = artifacts.EnsureUpstream(ctx, cache, s.Kubernetes, progress); err != nil {
		return content, err
	}
	if !s.WithoutPackages {
		content.Repository, err = s.repository(ctx, cache, folder, progress)
	}
	return content, err
}

// repository writes a repository of apt below a folder.
func (s Sources) repository(ctx context.Context, cache, folder string, progress func(string)) (*Repository, error) {
	packages, pool := filepath.Join(folder, "packages"), filepath.Join(folder, "apt")
	for _, path := range []string{packages, pool} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return nil, err
		}
	}
	program, err := filepath.Abs(filepath.Join(s.Programs, balancer))
	if err != nil {
		return nil, err
	}
	file, err := artifacts.EnsurePackage(ctx, cache, packages, program, s.ReleaseVersion, progress)
	if err != nil {
		return nil, err
	}
	return WriteRepository(ctx, pool, file)
}
