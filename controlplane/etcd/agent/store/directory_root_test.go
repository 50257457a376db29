//go:build root

package store

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
)

// mounted is a folder with a small file system in memory.
func mounted(t *testing.T, options string) string {
	t.Helper()
	folder := t.TempDir()
	must(t, syscall.Mount("none", folder, "tmpfs", 0, options))
	t.Cleanup(func() { must(t, syscall.Unmount(folder, syscall.MNT_DETACH)) })
	return folder
}

func TestAFullDiskIsToldAndLeavesNothing(t *testing.T) {
	folder := mounted(t, "size=1m")
	d := directory(t, folder)
	must(t, d.Put(t.Context(), "small", strings.NewReader("x")))
	err := d.Put(t.Context(), "large", bytes.NewReader(make([]byte, 2<<20)))
	if !errors.Is(err, syscall.ENOSPC) || FieldOf(err) != FieldClaimName || !strings.Contains(err.Error(), "the volume is full: make it larger") {
		t.Errorf("it says %v", err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 1 {
		t.Errorf("there are %v: %v", entries, err)
	}
	// There is room again.
	must(t, d.Put(t.Context(), "large", bytes.NewReader(make([]byte, 900<<10))))
	if err := d.Check(t.Context()); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"small", "large"} {
		must(t, d.Delete(t.Context(), name))
	}
}

func TestAVolumeThatCanOnlyBeReadIsTold(t *testing.T) {
	folder := mounted(t, "size=1m")
	must(t, directory(t, folder).Put(t.Context(), "a", strings.NewReader("x")))
	must(t, syscall.Mount("none", folder, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	d := directory(t, folder)
	for what, err := range map[string]error{"check": d.Check(t.Context()), "delete": d.Delete(t.Context(), "a")} {
		if FieldOf(err) != FieldClaimName || !strings.Contains(err.Error(), "can only be read") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got := read(t, d, "a"); string(got) != "x" {
		t.Errorf("it is %q", got)
	}
}
