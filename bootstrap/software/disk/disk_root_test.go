//go:build root

package disk

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
)

// mounted is a disk of which /small is another file system, of a size.
func mounted(t *testing.T, size string) *Disk {
	t.Helper()
	d := &Disk{Root: t.TempDir()}
	if err := os.Mkdir(d.Place("/small"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", d.Place("/small"), "tmpfs", 0, "size="+size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(d.Place("/small"), 0); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestAMoveToAnotherFileSystemKeepsWhatAFileIs(t *testing.T) {
	d := mounted(t, "1m")
	made := time.Unix(1_000_000_000, 0)
	if err := os.WriteFile(d.Place("/file"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, change := range []error{os.Chown(d.Place("/file"), 12, 34), os.Chmod(d.Place("/file"), 0o755|os.ModeSetuid), os.Chtimes(d.Place("/file"), made, made), os.Symlink("file", d.Place("/link"))} {
		if change != nil {
			t.Fatal(change)
		}
	}
	for _, step := range []struct{ from, to string }{{"/file", "/small/file"}, {"/link", "/small/link"}, {"/small/file", "/file"}, {"/small/link", "/link"}} {
		if err := d.Move(step.from, step.to); err != nil {
			t.Fatal(err)
		}
		if there, err := d.Exists(step.from); there || err != nil {
			t.Errorf("%s is there yet: %v", step.from, err)
		}
	}
	var stat unix.Stat_t
	if err := unix.Stat(d.Place("/file"), &stat); err != nil {
		t.Fatal(err)
	}
	if stat.Uid != 12 || stat.Gid != 34 || stat.Mode&0o7777 != 0o4755 || stat.Mtim.Sec != made.Unix() {
		t.Errorf("%+v", stat)
	}
	if target, err := d.Target("/link"); target != "file" || err != nil {
		t.Errorf("the link leads to %q: %v", target, err)
	}
}

func TestAFullDiskIsToldBeforeItIsFull(t *testing.T) {
	d := mounted(t, "260m")
	if err := d.Room("/small", 1<<20); err != nil {
		t.Error(err)
	}
	err := d.Room("/small", 8<<20)
	if result := software.ResultOf(err); result.Reason != software.NoRoom || !strings.Contains(result.Message, "the disk of /small has 260.0 MiB free, and 8.0 MiB are needed beside 256.0 MiB that stay free") {
		t.Errorf("%+v", result)
	}
	file, err := d.Create("/small/file")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	w := d.Roomy("/small/file", file)
	var written int
	for block := make([]byte, 1<<20); err == nil && written < 16; written++ {
		_, err = w.Write(block)
	}
	if software.ResultOf(err).Reason != software.NoRoom || written < 2 || written > 6 {
		t.Errorf("after %d MiB: %v", written, err)
	}
}

func TestADiskThatIsFullIsTold(t *testing.T) {
	d := mounted(t, "1m")
	err := d.Full("/small", d.Write("/small/file", make([]byte, 2<<20), 0o600))
	if result := software.ResultOf(err); result.Reason != software.NoRoom || !strings.Contains(result.Message, "the disk of /small is full") {
		t.Errorf("%+v", result)
	}
}
