package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/markdown"
)

// images.txt has one patch of each minor: by this rule people know the images of any other.
func TestAnotherPatchHasOtherTagsOfKubernetesOwnImagesAlone(t *testing.T) {
	for _, version := range listed() {
		images, err := imagesOf(version)
		if err != nil {
			t.Fatal(err)
		}
		other := version + "1"
		got, err := imagesOf(other)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, image := range images {
			if name, ok := strings.CutSuffix(image, ":"+version); ok && strings.HasPrefix(name, "registry.k8s.io/kube-") {
				image = name + ":" + other
			}
			want = append(want, image)
		}
		if !slices.Equal(got, want) || slices.Equal(got, images) {
			t.Errorf("the images of %s are %q, want %q", other, got, want)
		}
	}
}

// Finding 11: what a release installs is by digest where the release knows one. docs/install.md says which images go by tag.
func TestFinding11ImagesOfClusterAPIAloneGoByTag(t *testing.T) {
	all, err := providers("../..", "v0.2.0", func(image string) string { return "registry.example.com/" + image + "@sha256:" })
	if err != nil {
		t.Fatal(err)
	}
	var byTag []string
	for _, p := range all {
		for _, image := range append(slices.Collect(maps.Values(p.arguments)), p.image) {
			if !strings.HasSuffix(image, "@sha256:") {
				byTag = append(byTag, image)
			}
		}
	}
	core, err := findModule("../..", "sigs.k8s.io/cluster-api")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"registry.k8s.io/cluster-api/cluster-api-controller:" + core.Version, "registry.k8s.io/cluster-api/kubeadm-bootstrap-controller:" + core.Version,
	}
	if !slices.Equal(byTag, want) {
		t.Errorf("%q go by tag, want %q", byTag, want)
	}
}

// Finding 11, in the manifests: no container of ours, nor one that a manager makes, has an image that somebody can exchange.
func TestFinding11WhatIsInstalledNamesDigests(t *testing.T) {
	const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for _, p := range ownProviders("../..", "v0.2.0", func(image string) string { return "registry.example.com/" + image + digest }) {
		folder := t.TempDir()
		if err := p.write(folder); err != nil {
			t.Fatal(err)
		}
		pod := managerPod(t, components(t, p.componentsPath(folder)))
		var images []string
		for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
			images = append(images, container.Image)
			for _, argument := range container.Args {
				if flag, image, _ := strings.Cut(argument, "="); strings.HasSuffix(flag, "-image") {
					images = append(images, image)
				}
			}
		}
		if want := 1 + len(p.arguments); len(images) != want {
			t.Errorf("%s names the images %q, want %d", p.label, images, want)
		}
		for _, image := range images {
			if !strings.HasSuffix(image, digest) {
				t.Errorf("%s names %s", p.label, image)
			}
		}
	}
}

// What the list lacks is said where people read of it.
func TestWhatTheListOfImagesLacksIsDocumented(t *testing.T) {
	page, err := markdown.Read("docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range page.Tables {
		for _, row := range table.Rows {
			if row["file"] != "`images.txt`" {
				continue
			}
			for _, want := range []string{"each minor", "`kube-*`", "cert-manager's", "`clusterctl init list-images`"} {
				if !strings.Contains(row["what it is"], want) {
					t.Errorf("docs/install.md does not say %q of images.txt, but %s", want, row["what it is"])
				}
			}
			return
		}
	}
	t.Error("docs/install.md has no row of images.txt")
}
