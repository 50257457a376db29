package versions

import (
	"testing"

	"sigs.k8s.io/yaml"
)

// FuzzTables: a table that is accepted has what goes with each of its minors, and is the same when it is written again.
func FuzzTables(f *testing.F) {
	f.Add(embedded)
	for _, seed := range []string{
		"", "releases: []", "releases: [{minor: v1.36, etcd: 3.6.0-0, coreDNS: v1.12.0, konnectivity: v0.34.0}]", "releases: [{minor: v1.36.0}]", "releases: [{minor: 1.36}]",
		"releases: [{minor: v1.9, etcd: a, coreDNS: a, konnectivity: a}, {minor: v1.10, etcd: a, coreDNS: a, konnectivity: a}]",
		"releases: [{minor: v1.18446744073709551615, etcd: a, coreDNS: a, konnectivity: a}]", "releases: [{minor: v01.1}]", "{releases: [], other: 1}", "a: &a [*a]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := Load(data)
		if err != nil {
			return
		}
		for _, minor := range table.Minors() {
			if release, err := table.Release(minor + ".0"); err != nil || release.Minor != minor {
				t.Errorf("of %s it has %v, %v", minor, release, err)
			}
		}
		if table.Newest().Minor != table.Minors()[len(table.Minors())-1] {
			t.Errorf("the newest of %s is %s", table, table.Newest().Minor)
		}
		written, err := yaml.Marshal(map[string]any{"releases": table.releases})
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Load(written); err != nil || !again.Equal(table) {
			t.Errorf("written again it is another: %v\n%s", err, written)
		}
	})
}

// FuzzVersions: a version that is accepted is written as it was read, and is between its neighbours.
func FuzzVersions(f *testing.F) {
	for _, seed := range []string{"v1.36.3", "v1.36.0-rc.1", "v1.36.3+vendor.1", "1.36.3", "v1.36", "v01.36.3", "v1.36.3+", "v1.36.3-", "v-1.36.3", "v1.36.3\n", "", "v", "v9223372036854775807.1.1", "v1.2.3-a_b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		version, err := Parse(text)
		if err != nil {
			return
		}
		if version.String() != text || !SameMinor(text, text) || Compare(text, text) != 0 || !imageTag.MatchString(ImageTag(text)) {
			t.Errorf("%q is read as %s, and its tag is %q", text, version, ImageTag(text))
		}
		if Normalize(text[1:]) != text {
			t.Errorf("without its v %q is not known", text)
		}
	})
}
