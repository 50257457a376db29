package artifacts

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
)

// Conformance is what Kubernetes' own end-to-end tests take. It is no part of a Set: it takes long to build, and few who
// use the lab need it.
type Conformance struct {
	// Program is Kubernetes' test binary with all its specs, of the version of the cluster that it tests.
	Program string
	// Ginkgo runs it in several processes.
	Ginkgo string
	// Images are those of the images that specs ask for that can be had without a registry.
	Images []Image
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
		if folder, err = buildPause(ctx, cache); err != nil {
			return err
		}
		c.Images, err = conformanceImages(ctx, c.Program, filepath.Join(folder, "pause"))
		return err
	})
}

// conformanceImages makes the image of pause under the name that specs give it: its tag is not that of pod sandboxes.
func conformanceImages(ctx context.Context, tests, pause string) ([]Image, error) {
	list, err := run(ctx, command{name: tests, args: []string{"--list-images"}})
	if err != nil {
		return nil, fmt.Errorf("list the images of the tests: %w", err)
	}
	repository, _, _ := strings.Cut(PauseImage, ":")
	for name := range strings.FieldsSeq(string(list)) {
		if strings.HasPrefix(name, repository+":") {
			return []Image{ProgramImage(name, pause)}, nil
		}
	}
	return nil, fmt.Errorf("the tests name no image of %s", repository)
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
