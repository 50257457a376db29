package machine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestCheckDebian(t *testing.T) {
	for name, test := range map[string]struct{ content, want string }{
		"Debian 12 will do":             {"ID=debian\nVERSION_ID=\"12\"\n", ""},
		"Debian testing has no version": {"ID=debian\n", ""},
		"Debian 11 is too old":          {"PRETTY_NAME=\"Debian 11\"\nID=debian\nVERSION_ID=\"11\"\n", `this is "Debian 11"`},
		"another system is named":       {"PRETTY_NAME=\"Fedora 42\"\nID=fedora\n", `this is "Fedora 42"`},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, checkDebian(write(t, test.content)), test.want)
		})
	}
}

func TestCheckMemory(t *testing.T) {
	needs := Needs{Memory: 7 * gibibyte}
	expect(t, needs.checkMemory(write(t, "MemTotal:       8032000 kB\n")), "")
	expect(t, needs.checkMemory(write(t, "MemTotal:       4000000 kB\n")), "this one has 3.8 GiB")
	expect(t, needs.checkMemory(write(t, "MemFree: 1 kB\n")), "no MemTotal")
}

func TestCheckDiskUsesTheNearestFolderThatIsThere(t *testing.T) {
	folder := t.TempDir()
	expect(t, Needs{Disk: 1}.checkDisk(filepath.Join(folder, "not", "there")), "")
	expect(t, Needs{Disk: 1 << 62}.checkDisk(filepath.Join(folder, "not", "there")), filepath.Join(folder, "not", "there")+" has")
}

func expect(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case err == nil && want != "":
		t.Errorf("no error, want one with %q", want)
	case err != nil && want == "":
		t.Errorf("unexpected error: %v", err)
	case err != nil && !strings.Contains(err.Error(), want):
		t.Errorf("error %q does not contain %q", err, want)
	}
}
