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
	server, err := agnhostRecipe(version)
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
		pause, err := buildPause(ctx, cache)
		if err != nil {
			return err
		}
		if folder, err = server.build(ctx, cache, goVersion, progress); err != nil {
			return err
		}
		source, err := downloadModule(ctx, server.module, version)
		if err != nil {
			return err
		}
		c.Images, err = conformanceImages(ctx, c.Program, filepath.Join(pause, "pause"), agnhostFiles(filepath.Join(folder, agnhostProgram), source))
		return err
	})
}

// conformanceImages makes the images that are one program each, under the names that specs give them: the tag of pause
// is not that of pod sandboxes, and agnhost has two, for specs that replace an image by another. agnhost's own image has
// a shell and other people's programs besides.
func conformanceImages(ctx context.Context, tests, pause string, agnhost []File) ([]Image, error) {
	output, err := run(ctx, command{name: tests, args: []string{"--list-images"}})
	if err != nil {
		return nil, fmt.Errorf("list the images of the tests: %w", err)
	}
	var images []Image
	pauses, _, _ := strings.Cut(PauseImage, ":")
	for name := range strings.FieldsSeq(string(output)) {
		switch repository, _, _ := strings.Cut(name, ":"); repository {
		case pauses:
			images = append(images, ProgramImage(name, pause))
		case agnhostRepository:
			images = append(images, Image{Name: name, Files: agnhost, Args: []string{"pause"}})
		}
	}
	if len(images) < 2 {
		return nil, fmt.Errorf("the tests name not both %s and %s", pauses, agnhostRepository)
	}
	return images, nil
}

// agnhostFiles are those of its image that specs name: the program under two names, and a certificate for localhost from
// the module's source.
func agnhostFiles(program, source string) []File {
	certificates := filepath.Join(source, "test", "images", agnhostProgram, "porter")
	return []File{
		{Path: "/agnhost", Source: program}, {Path: "/agnhost-2", Source: program},
		{Path: "/localhost.crt", Source: filepath.Join(certificates, "localhost.crt")},
		{Path: "/localhost.key", Source: filepath.Join(certificates, "localhost.key")},
	}
}

const (
	conformanceProgram = "e2e.test"
	ginkgoProgram      = "ginkgo"
	agnhostProgram     = "agnhost"

	agnhostRepository = "registry.k8s.io/e2e-test-images/agnhost"
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

// agnhostRecipe builds the program of the image that most specs take their servers and clients from.
func agnhostRecipe(version string) (recipe, error) {
	r, err := kubernetesRecipe(version)
	r.name = "kubernetes-agnhost"
	r.programs = []program{{name: agnhostProgram, pkg: "k8s.io/kubernetes/test/images/agnhost"}}
	return r, err
}
