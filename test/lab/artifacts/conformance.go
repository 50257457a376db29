package artifacts

import (
	"context"
	"path/filepath"
)

// Conformance is what Kubernetes' own end-to-end tests take. It is no part of a Set: it takes long to build, and few who
// use the lab need it.
type Conformance struct {
	// Program is Kubernetes' test binary with all its specs, of the version of the cluster that it tests.
	Program string
	// Ginkgo runs it in several processes.
	Ginkgo string
}

// EnsureConformance builds the tests of one Kubernetes version, unless they are in the cache folder.
func EnsureConformance(ctx context.Context, cacheDir, version string, progress func(string)) (*Conformance, error) {
	tests, err := conformanceRecipe(version)
	if err != nil {
		return nil, err
	}
	runner, err := ginkgoRecipe(version)
	if err != nil {
		return nil, err
	}
	c := &Conformance{}
	return c, inCache(ctx, cacheDir, progress, func(cache, goVersion string) error {
		folder, err := tests.build(ctx, cache, goVersion, progress)
		if err != nil {
			return err
		}
		c.Program = filepath.Join(folder, conformanceProgram)
		if folder, err = runner.build(ctx, cache, goVersion, progress); err != nil {
			return err
		}
		c.Ginkgo = filepath.Join(folder, ginkgoProgram)
		return nil
	})
}

const (
	conformanceProgram = "e2e.test"
	ginkgoProgram      = "ginkgo"
)

// conformanceRecipe builds the tests with the version of the cluster stamped in: some compare the two.
func conformanceRecipe(version string) (recipe, error) {
	r, err := kubernetesRecipe(version)
	r.name, r.tests = "kubernetes-e2e", true
	r.programs = []program{{name: conformanceProgram, pkg: "k8s.io/kubernetes/test/e2e"}}
	return r, err
}

// ginkgoRecipe builds the runner of the version that the tests are linked with: another one refuses them.
func ginkgoRecipe(version string) (recipe, error) {
	r, err := kubernetesRecipe(version)
	r.name, r.stamps = "kubernetes-ginkgo", nil
	r.programs = []program{{name: ginkgoProgram, pkg: "github.com/onsi/ginkgo/v2/ginkgo"}}
	return r, err
}
