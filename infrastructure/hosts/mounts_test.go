package hosts

import (
	"slices"
	"strings"
	"testing"
)

func TestMounts(t *testing.T) {
	const mountinfo = `22 1 8:1 / / rw - ext4 /dev/sda1 rw
30 22 0:5 / /var/lib/kubelet rw shared:1 - tmpfs tmpfs rw
31 30 0:6 / /var/lib/kubelet/pods/a/volumes/b\040c rw - tmpfs tmpfs rw
32 22 0:7 / /var/lib/kubelets rw - tmpfs tmpfs rw
short
`
	want := []string{"/var/lib/kubelet/pods/a/volumes/b c", "/var/lib/kubelet"}
	if got := parseMounts(mountinfo, []string{"/var/lib/kubelet"}); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// FuzzMountsAndUnits: mount points that are unmounted are in the folders that were asked for, and nowhere else.
func FuzzMountsAndUnits(f *testing.F) {
	for _, seed := range []string{
		"36 35 98:0 / /var/lib/kubelet/pods/a rw - ext3 /dev/root rw", `1 1 1 / /var/lib/kubelet/a\040b rw`, `1 1 1 / /var/lib/kubelet/..\057..\057etc rw`, `1 1 1 / /var/lib/kubelet/\`, "", "a b c d",
		"LoadState=loaded\nActiveState=active\nNRestarts=1\nExecMainStartTimestampMonotonic=1000000\n\nLoadState=not-found\n", "NRestarts=99999999999999999999\n\n\n\n", "ExecMainStartTimestampMonotonic=9223372036854775807",
	} {
		f.Add(seed)
	}
	folders := []string{"/var/lib/kubelet", "/run/flannel"}
	f.Fuzz(func(t *testing.T, text string) {
		for _, point := range parseMounts(text, folders) {
			if !slices.ContainsFunc(folders, func(folder string) bool { return point == folder || strings.HasPrefix(point, folder+"/") }) ||
				slices.Contains(strings.Split(point, "/"), "..") {
				t.Errorf("%q would be unmounted", point)
			}
		}
		if units := parseUnits(text); len(units) != strings.Count(strings.TrimSpace(text), "\n\n")+1 && !strings.Contains(text, "\n\n\n") {
			t.Errorf("%d units", len(units))
		}
	})
}
