package artifacts

import (
	"io/fs"
	"strings"
	"testing"
)

func TestEachHostAddonHasAnOverlayOfItsOwn(t *testing.T) {
	v := DefaultVersions()
	for _, addon := range []hostAddon{metalLB(v.MetalLB), metricsServer(v.MetricsServer)} {
		text, err := fs.ReadFile(overlays, "overlays/"+addon.recipe.name+"/kustomization.yaml")
		if err != nil {
			t.Error(err)
		}
		if !strings.Contains(string(text), "\n- upstream/") {
			t.Errorf("the overlay of %s does not build on upstream's manifests", addon.recipe.name)
		}
	}
}

func TestNoHostAddonTrustsWhomItDoesNotKnow(t *testing.T) {
	err := fs.WalkDir(overlays, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(overlays, path)
		if err == nil && strings.Contains(string(text), "kubelet-insecure-tls") {
			t.Errorf("%s does not check kubelets' certificates", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
