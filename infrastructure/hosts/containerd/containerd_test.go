package containerd

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/hosttest"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

// What containers still use must not be hidden: a restart of the host ends it.
func TestFoldersOfContainerdStayWhileSomethingUsesThem(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*hosttest.Simulated)
		want string
	}{
		"a container": {func(s *hosttest.Simulated) { s.Tasks = []string{"left"} }, "its folders stay, for there still run: container left; restart the host"},
		"a mount": {func(s *hosttest.Simulated) {
			s.Mounts, s.Sticky["/run/containerd/a/rootfs"] = append(s.Mounts, "/run/containerd/a/rootfs"), true
		}, "its folders stay, for /run/containerd/a/rootfs is still mounted"},
	} {
		t.Run(name, func(t *testing.T) {
			s := hosttest.NewBare(t)
			s.Files["/run/containerd/a/rootfs/precious"] = "data"
			test.edit(s)
			err := Remove(t.Context(), hosts.New(s, "admin"), &records.Record{Folders: containerdFolders})
			if err == nil || !strings.Contains(err.Error(), test.want) || s.Files["/run/containerd/a/rootfs/precious"] != "data" {
				t.Errorf("%v", err)
			}
		})
	}
}

// The folders of a containerd of the host's own are the host's.
func TestFoldersOfAHostsOwnContainerdAreNotNoted(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*hosttest.Simulated)
		want []string
	}{
		"a host with containerd": {func(s *hosttest.Simulated) { s.StartNewContainerd(); s.Files["/usr/bin/containerd"] = "" }, nil},
		"one that has not run":   {func(s *hosttest.Simulated) { s.Files["/usr/bin/containerd"] = "" }, nil},
		"one in a place of its own": {func(s *hosttest.Simulated) {
			s.Units[onworker.ContainerdUnit] = &hosts.UnitState{Loaded: true, Active: "inactive"}
		}, nil},
		"a host that had one":                {func(s *hosttest.Simulated) { s.Files[containerdMetadata] = "" }, slices.DeleteFunc(slices.Clone(containerdFolders), func(f string) bool { return f == containerdDir })},
		"a bare host":                        {func(*hosttest.Simulated) {}, containerdFolders},
		"a bare host with a disk for images": {func(s *hosttest.Simulated) { s.Mounts = append(s.Mounts, containerdDir) }, containerdFolders},
		"a bare host with a disk with files": {func(s *hosttest.Simulated) {
			s.Mounts = append(s.Mounts, containerdDir)
			s.Files[containerdDir+"/a"] = ""
		}, containerdFolders[:len(containerdFolders)-1]},
	} {
		t.Run(name, func(t *testing.T) {
			s := hosttest.NewBare(t)
			test.edit(s)
			before := maps.Clone(s.Files)
			got, err := noteFolders(t.Context(), hosts.New(s, "admin"))
			if err != nil || !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(test.want))) {
				t.Errorf("%q, %v", got, err)
			}
			if diff := cmp.Diff(before, s.Files); diff != "" {
				t.Errorf("it changed the host: %s", diff)
			}
		})
	}
}
