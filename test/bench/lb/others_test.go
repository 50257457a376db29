package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFilesOfABenchmarkThatWasKilledGo(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	former, err := os.MkdirTemp("", directories)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(temporary, "kok-image-1")
	for _, file := range []string{filepath.Join(former, "kubeconfig"), other} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeFormer(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(former); !os.IsNotExist(err) {
		t.Errorf("they are still there: %v", err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("a file of something else is gone: %v", err)
	}
}
