package look

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWhatIsReadOnlyIsToldFromHowItIsMounted(t *testing.T) {
	const mounts = `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
98 22 8:16 /volumes/a /var/lib/etcd ro,relatime - ext4 /dev/sdb rw
99 22 8:32 / /broken rw,relatime shared:7 master:2 - ext4 /dev/sdc ro,errors=remount-ro
100 22 8:48 /
`
	for device, want := range map[string]bool{"8:1": false, "8:16": false, "8:32": true, "8:48": false, "8:64": false} {
		if got := readOnly(mounts, device); got != want {
			t.Errorf("it is %t that the file system of %s can only be read", got, device)
		}
	}
	if frozen(t.TempDir()) || frozen(filepath.Join(t.TempDir(), "none")) {
		t.Error("a folder that can be written is said to be on a file system that can only be read")
	}
}

func TestTheModeSaysWhoMayWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, nil, 0o600))
	if err := writable(path); err != nil {
		t.Error(err)
	}
	must(t, os.Chmod(path, 0o466))
	if err := writable(path); (err == nil) != (os.Getuid() == 0) {
		t.Errorf("its owner, who may only read it: %v", err)
	}
	if err := writable(filepath.Join(path, "none")); err == nil {
		t.Error("what is not there can be written")
	}
}
