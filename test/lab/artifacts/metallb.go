package artifacts

import (
	"context"
	"path/filepath"
)

const metalLBModule = "go.universe.tf/metallb"

// EnsureMetalLB builds MetalLB, the load balancer of clusters without a cloud's, as Ensure does: its hosts answer for the
// addresses of Services. Which addresses those are is for objects of its own.
func EnsureMetalLB(ctx context.Context, cacheDir string, progress func(string)) (*HostAddon, error) {
	return metalLB(DefaultVersions().MetalLB).ensure(ctx, cacheDir, progress)
}

func metalLB(version string) hostAddon {
	one := func(programs, name string) Image {
		return Image{Name: "quay.io/metallb/" + name + ":" + version, Files: []File{{Path: "/" + name, Source: filepath.Join(programs, name)}}}
	}
	return hostAddon{
		recipe: recipe{
			name: "metallb", module: metalLBModule, version: version,
			local: func(string) (string, error) { return "", nil },
			programs: []program{
				{name: "controller", pkg: metalLBModule + "/controller"},
				{name: "speaker", pkg: metalLBModule + "/speaker"},
			},
		},
		manifests: "config/manifests",
		images:    func(programs string) []Image { return []Image{one(programs, "controller"), one(programs, "speaker")} },
	}
}
