package main

import (
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
