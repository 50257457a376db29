package files

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAFileIsReplacedAsAWhole(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "a")
	if err := os.WriteFile(path, []byte("former"), 0o644); err != nil { // A file that all can read must not get a key.
		t.Fatal(err)
	}
	reader, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close() //nolint:errcheck // It was only read.
	if err := Replace(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	before := make([]byte, 10)
	if n, _ := reader.Read(before); string(before[:n]) != "former" {
		t.Errorf("who read it before has %q", before[:n])
	}
	after, err := os.ReadFile(path)
	if info, _ := os.Stat(path); err != nil || string(after) != "new" || info.Mode() != 0o600 {
		t.Errorf("there is %q, %v, %v", after, info.Mode(), err)
	}
	if err := Replace(filepath.Join(folder, "none", "a"), nil); err == nil {
		t.Error("a file in a folder that does not exist is written")
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("there are %v, %v", left, err)
	}
}
