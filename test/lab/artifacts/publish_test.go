package artifacts

import "testing"

func TestMountBelow(t *testing.T) {
	const info = `22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
57 22 0:21 / /cache/rootfs/debian.partial/sys rw - sysfs sysfs rw
`
	for path, want := range map[string]string{
		"/cache/rootfs/debian.partial":     "/cache/rootfs/debian.partial/sys",
		"/cache/rootfs/debian.partial/sys": "/cache/rootfs/debian.partial/sys",
		"/cache/rootfs/debian.part":        "",
		"/cache/bin":                       "",
	} {
		if got := mountBelow([]byte(info), path); got != want {
			t.Errorf("mountBelow(%s) = %q, want %q", path, got, want)
		}
	}
}
