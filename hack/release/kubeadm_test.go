//go:build envtest

package main

import (
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/kubeadm"
)

func TestPauseIsWhatKubeadmOfEachMinorNames(t *testing.T) {
	for _, version := range listed() {
		named, err := kubeadm.Read(t.Context(), t.TempDir(), version)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := versions.Parse(version)
		if err != nil {
			t.Fatal(err)
		}
		if tag := pauseTags[parsed.MinorString()]; tag != named.Pause {
			t.Errorf("images.txt has pause %q for %s, and kubeadm %s names %s", tag, parsed.MinorString(), version, named.Pause)
		}
	}
	if len(pauseTags) != len(listed()) {
		t.Errorf("%d tags for %d minors", len(pauseTags), len(listed()))
	}
}
