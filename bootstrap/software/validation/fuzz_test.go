package validation

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
)

const documentSeed = `{"name":"a","version":"v1.36.3","mirrors":[{"prefix":"https://a.example/","endpoints":[{"url":"https://b.example/","username":"u","password":"p"}]}],
"components":[{"name":"containerd","unit":{"name":"containerd.service","content":"[Service]"},"files":[{"path":"/etc/containerd/config.toml","content":"a","mode":"0644"}],
"variants":[{"archive":{"sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","urls":["https://a.example/a.tar.gz"],"unpack":[{"from":"bin/","to":"/usr/local/bin/"}]}}],"check":{"type":"CRI"}}],
"kernel":{"modules":["overlay"],"sysctls":[{"name":"net.ipv4.ip_forward","value":"1"}]}}`

// FuzzDocuments: a document that is accepted is accepted, and is the same, when it is written again; and none of its files is
// where others have theirs.
func FuzzDocuments(f *testing.F) {
	f.Add([]byte(documentSeed))
	for old, replacement := range map[string]string{
		"/etc/containerd/config.toml": "/etc/kok/software.json", "/usr/local/bin/": "/usr/../etc/", "bin/\"": "../bin/\"", "0644": "4755", "containerd.service": "../a.service", "https://a.example/a.tar.gz": "file:///etc/shadow",
		`"name":"a"`: `"name":"a","formatVersion":2`, `"overlay"`: `"a b"`, `"CRI"`: `"HTTP","url":"http://127.0.0.1:1/"`,
	} {
		f.Add([]byte(strings.ReplaceAll(documentSeed, old, replacement)))
	}
	f.Add([]byte(documentSeed + "{}"))
	files, err := filepath.Glob("testdata/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		document, err := Parse(data)
		if err != nil {
			return
		}
		for _, component := range document.Components {
			for _, own := range ownPaths(component) {
				if !filepath.IsAbs(own) || filepath.Clean(own) != own || strings.HasPrefix(own, software.Dir) || own == software.DocumentFile {
					t.Errorf("a component has %q", own)
				}
			}
		}
		written, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(written)
		if diff := cmp.Diff(document, again, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("written again it is another: %v\n%s", err, diff)
		}
	})
}
