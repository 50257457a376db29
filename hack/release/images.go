package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rendering"
	"github.com/kube-on-kube/cluster-api-provider-kok/hack/release/oci"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
)

// pauseTags are the tags of pause that kubeadm of each minor of Kubernetes names.
var pauseTags = map[string]string{"v1.34": "3.10.1", "v1.35": "3.10.1", "v1.36": "3.10.2"}

// listed are the versions of Kubernetes whose images are listed: those that the release is tested with, one of each minor.
func listed() []string { return append(artifacts.OlderVersions(), artifacts.DefaultVersions().Host) }

// writeImageList writes images.txt: the images of all providers, and those of control planes and workers of each minor.
func (r release) writeImageList(digests oci.Digests) error {
	all, err := providers(r.root, r.version, func(image string) string { return r.registry + "/" + image + "@" + digests[image].String() })
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("# Images that nodes pull. Another patch of Kubernetes has other tags of kube-*, and the same of all else.\n" +
		"# pause is the one that kubeadm names; a node pulls the one that its containerd's configuration names.\n" +
		"# Not here: cert-manager's, which clusterctl init list-images names.\n\n# Providers\n")
	for _, p := range all {
		b.WriteString(p.image + "\n")
		for _, image := range slices.Sorted(maps.Values(p.arguments)) {
			b.WriteString(image + "\n")
		}
	}
	for _, version := range listed() {
		images, err := imagesOf(version)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "\n# Kubernetes %s\n%s\n", version, strings.Join(images, "\n"))
	}
	return writeFile(filepath.Join(r.out, "images.txt"), []byte(b.String()))
}

// imagesOf are the images of control planes and workers of a version.
func imagesOf(version string) ([]string, error) {
	images, err := rendering.Images(version, "", versions.BuiltIn())
	if err != nil {
		return nil, err
	}
	parsed, err := versions.Parse(version)
	if err != nil {
		return nil, err
	}
	pause, ok := pauseTags[parsed.MinorString()]
	if !ok {
		return nil, fmt.Errorf("there is no tag of pause for Kubernetes %s: add it to pauseTags", parsed.MinorString())
	}
	images = append(images, "registry.k8s.io/pause:"+pause)
	slices.Sort(images)
	return images, nil
}
