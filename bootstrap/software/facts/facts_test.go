package facts

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		files       map[string]string
		os, version string
		fails       bool
	}{
		"Debian":                              {files: map[string]string{"etc": "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nVERSION_ID=\"12\"\nID=debian\n"}, os: "debian", version: "12"},
		"a distribution without versions":     {files: map[string]string{"etc": "# comment\n\nID='arch'\n"}, os: "arch"},
		"one that says it below /usr alone":   {files: map[string]string{"usr/lib": "ID=fedora\nVERSION_ID=41"}, os: "fedora", version: "41"},
		"one that has both goes by the first": {files: map[string]string{"etc": "ID=ubuntu", "usr/lib": "ID=debian"}, os: "ubuntu"},
		"escapes are taken off":               {files: map[string]string{"etc": `ID="a\"b\\c"`}, os: `a"b\c`},
		"one that does not say its name":      {files: map[string]string{"etc": "NAME=x"}, os: "linux"},
		"one that says nothing":               {fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for folder, content := range c.files {
				if err := os.MkdirAll(filepath.Join(root, folder), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(root, folder, "os-release"), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := Read(root)
			if (err != nil) != c.fails || got.OS != c.os || got.OSVersion != c.version || got.Architecture != runtime.GOARCH {
				t.Errorf("%+v: %v", got, err)
			}
		})
	}
}
