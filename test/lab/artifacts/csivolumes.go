package artifacts

import (
	"context"
	"path/filepath"
)

const csiVolumesDir = "test/lab/images/csi-volumes"

// EnsureCSIVolumes builds a CSI driver whose volumes grow while pods use them, with Kubernetes' own CSI provisioner and resizer, as Ensure
// does.
func EnsureCSIVolumes(ctx context.Context, cacheDir string, progress func(string)) (*HostAddon, error) {
	checkout, err := findCheckout()
	if err != nil {
		return nil, err
	}
	built := &HostAddon{Manifests: filepath.Join(checkout, csiVolumesDir, "manifests.yaml")}
	return built, inCache(ctx, cacheDir, progress, func(cache, goVersion string) error {
		programs, err := csiVolumesRecipe().build(ctx, cache, goVersion, checkout, progress)
		if err != nil {
			return err
		}
		var files []string
		for _, p := range csiVolumesRecipe().programs {
			files = append(files, filepath.Join(programs, p.name))
		}
		built.Images = []Image{ProgramImage("ghcr.io/kube-on-kube/lab-csi-volumes:dev", files...)}
		return nil
	})
}

func csiVolumesRecipe() sourceRecipe {
	return sourceRecipe{name: "csi-volumes", dir: csiVolumesDir, programs: []program{
		{name: "csi-volumes", pkg: "."},
		{name: "csi-provisioner", pkg: "github.com/kubernetes-csi/external-provisioner/v6/cmd/csi-provisioner"},
		{name: "csi-resizer", pkg: "github.com/kubernetes-csi/external-resizer/v2/cmd/csi-resizer"},
	}}
}
