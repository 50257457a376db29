package artifacts

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/semver"
)

func TestVersionsOnAHostCluster(t *testing.T) {
	newest := DefaultVersions()
	older := newest
	older.Host = OlderVersions()[0]
	for name, test := range map[string]struct {
		host    string
		want    Versions
		failure string
	}{
		"the newest when none is given":          {want: newest},
		"the newest by its name":                 {host: newest.Host, want: newest},
		"an older one changes nothing else":      {host: older.Host, want: older},
		"one that is not built names the others": {host: "v1.33.0", failure: strings.Join(HostVersions(), ", ")},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := VersionsOn(test.host)
			if test.failure != "" {
				if err == nil || !strings.Contains(err.Error(), test.failure) {
					t.Errorf("error %v, not %q", err, test.failure)
				}
				return
			}
			if err != nil || got.Host != test.want.Host || !slices.Equal(got.Tenants, test.want.Tenants) || got.Etcd != test.want.Etcd {
				t.Errorf("got %+v, %v, want %+v", got, err, test.want)
			}
		})
	}
}

func TestHostVersionsAreOneOfEachMinorInTheirOrder(t *testing.T) {
	all := HostVersions()
	if !semver.IsValid(all[0]) || !slices.IsSortedFunc(all, semver.Compare) {
		t.Errorf("%v are not in their order", all)
	}
	if minors := slices.CompactFunc(slices.Clone(all), func(a, b string) bool { return semver.MajorMinor(a) == semver.MajorMinor(b) }); len(minors) != len(all) {
		t.Errorf("%v has two of one minor", all)
	}
}

func TestProgramsOfHostsAreOfTheHostClustersVersion(t *testing.T) {
	s := &Set{
		Versions: Versions{Host: "v1.35.4"}, Etcd: "/cache/etcd/etcd",
		kubernetes: map[string]string{"v1.35.4": "/cache/older", "v1.36.3": "/cache/newer"},
	}
	for name, want := range map[string]string{"kubelet": "/cache/older/kubelet", "kube-apiserver": "/cache/older/kube-apiserver", "etcd": "/cache/etcd/etcd"} {
		if got, err := s.HostProgram(name); err != nil || got != want {
			t.Errorf("%s is %s, %v, not %s", name, got, err, want)
		}
	}
	if _, err := s.HostProgram("dockerd"); err == nil {
		t.Error("a program that no host has is found")
	}
}

func TestTheFormerEtcdIsOneThatTheLabsMayFollow(t *testing.T) {
	v := DefaultVersions()
	before, now := v.FormerEtcd, v.Etcd
	if semver.MajorMinor(before) != "v3.5" || semver.MajorMinor(now) != "v3.6" {
		t.Errorf("etcd goes from %s to %s", before, now)
	}
	if semver.Compare(before, "v3.5.26") < 0 {
		t.Errorf("members of %s may come back after an upgrade when they were removed before", before)
	}
}
