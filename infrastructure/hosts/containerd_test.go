package hosts

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// A package stays, and with it a containerd that the next machine uses.
func TestAPackageOfContainerdKeepsNothingOfTheMachine(t *testing.T) {
	for name, tasks := range map[string][]string{"with pods": {"0123abc"}, "with containers that ended": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newBare(t)
				s.bring = (*simulated).bringPackage
				h := New(s, "admin")
				machine := worker()
				machine.UserData = []byte("#cloud-config\npackages: [containerd]\n")
				if _, err := untilEnded(t.Context(), h, machine); err != nil {
					t.Fatal(err)
				}
				s.tasks = tasks
				if err := h.CleanUp(t.Context(), "id-1"); err != nil {
					t.Fatal(err)
				}
				if unit := s.units[containerdUnit]; unit == nil || unit.active != "active" || len(s.images)+len(s.tasks) > 0 || s.files["/etc/containerd/config.toml"] != "packaged" {
					t.Errorf("%+v, images %q, containers %q", unit, s.images, s.tasks)
				}
			})
		})
	}
}

// What containers still use must not be hidden: a restart of the host ends it.
func TestFoldersOfContainerdStayWhileSomethingUsesThem(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*simulated)
		want string
	}{
		"a container": {func(s *simulated) { s.tasks = []string{"left"} }, "its folders stay, for there still run: container left; restart the host"},
		"a mount": {func(s *simulated) {
			s.mounts, s.sticky["/run/containerd/a/rootfs"] = append(s.mounts, "/run/containerd/a/rootfs"), true
		}, "its folders stay, for /run/containerd/a/rootfs is still mounted"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBare(t)
			s.files["/run/containerd/a/rootfs/precious"] = "data"
			test.edit(s)
			err := New(s, "admin").removeContainerd(t.Context(), &Record{Folders: containerdFolders})
			if err == nil || !strings.Contains(err.Error(), test.want) || s.files["/run/containerd/a/rootfs/precious"] != "data" {
				t.Errorf("%v", err)
			}
		})
	}
}

// The folders of a containerd of the host's own are the host's.
func TestFoldersOfAHostsOwnContainerdAreNotNoted(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*simulated)
		want []string
	}{
		"a host with containerd":             {func(s *simulated) { s.startNewContainerd(); s.files["/usr/bin/containerd"] = "" }, nil},
		"one that has not run":               {func(s *simulated) { s.files["/usr/bin/containerd"] = "" }, nil},
		"one in a place of its own":          {func(s *simulated) { s.units[containerdUnit] = &unitState{loaded: true, active: "inactive"} }, nil},
		"a host that had one":                {func(s *simulated) { s.files[containerdMetadata] = "" }, slices.DeleteFunc(slices.Clone(containerdFolders), func(f string) bool { return f == containerdDir })},
		"a bare host":                        {func(*simulated) {}, containerdFolders},
		"a bare host with a disk for images": {func(s *simulated) { s.mounts = append(s.mounts, containerdDir) }, containerdFolders},
		"a bare host with a disk with files": {func(s *simulated) { s.mounts = append(s.mounts, containerdDir); s.files[containerdDir+"/a"] = "" }, containerdFolders[:len(containerdFolders)-1]},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBare(t)
			test.edit(s)
			before := maps.Clone(s.files)
			got, err := New(s, "admin").noteFolders(t.Context())
			if err != nil || !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(test.want))) {
				t.Errorf("%q, %v", got, err)
			}
			if diff := cmp.Diff(before, s.files); diff != "" {
				t.Errorf("it changed the host: %s", diff)
			}
		})
	}
}
