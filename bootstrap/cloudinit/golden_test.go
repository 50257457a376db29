package cloudinit

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/golden"
)

// readable are the files of a document one after another, for people who review a change.
func readable(t *testing.T, data []byte) []byte {
	t.Helper()
	files := contents(t, data)
	var all bytes.Buffer
	for _, path := range slices.Sorted(maps.Keys(files)) {
		content := files[path]
		if !utf8.ValidString(content) {
			content = fmt.Sprintf("%x", content)
		}
		fmt.Fprintf(&all, "==> %s <==\n%s\n", path, content)
	}
	return all.Bytes()
}

func TestDocuments(t *testing.T) {
	for _, version := range supported {
		parsed, err := versions.Parse(version)
		if err != nil {
			t.Fatal(err)
		}
		for variant, in := range map[string]Input{"minimal": minimal(version), "full": full(version), "software": withSoftware(version)} {
			t.Run(parsed.MinorString()+"/"+variant, func(t *testing.T) {
				data := render(t, in)
				golden.Compare(t, filepath.Join(parsed.MinorString(), variant+".yaml"), data)
				golden.Compare(t, filepath.Join(parsed.MinorString(), variant+".files.txt"), readable(t, data))
			})
		}
	}
}

func TestEverySupportedMinorHasGoldenFiles(t *testing.T) {
	for _, minor := range versions.BuiltIn().Minors() {
		if !slices.ContainsFunc(supported, func(version string) bool { return version[:len(minor)+1] == minor+"." }) {
			t.Errorf("%s has none", minor)
		}
	}
}
