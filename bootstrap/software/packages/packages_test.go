package packages

import (
	"maps"
	"slices"
	"strings"
	"testing"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
)

func TestMissing(t *testing.T) {
	const installed = "runc\tii \t1.1.5\nkubelet\thi \t1.36.3-1\nhalf\tiF \t1\ngone\trc \t1\n"
	for name, c := range map[string]struct {
		wanted  bootstrapv1.Package
		missing bool
	}{
		"one that is installed is not":           {bootstrapv1.Package{Name: "runc"}, false},
		"one in the version is not":              {bootstrapv1.Package{Name: "runc", Version: "1.1.5"}, false},
		"one that is held is not":                {bootstrapv1.Package{Name: "kubelet", Version: "1.36.3-1"}, false},
		"one in another version is":              {bootstrapv1.Package{Name: "runc", Version: "1.1.6"}, true},
		"one that is half configured is":         {bootstrapv1.Package{Name: "half"}, true},
		"one that was removed with its files is": {bootstrapv1.Package{Name: "gone"}, true},
		"one that dpkg does not know is":         {bootstrapv1.Package{Name: "none"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := missing([]bootstrapv1.Package{c.wanted}, installed); len(got) != 0 != c.missing {
				t.Errorf("%v", got)
			}
		})
	}
}

func TestInstallArgs(t *testing.T) {
	args := installArgs([]bootstrapv1.Package{{Name: "a"}, {Name: "b", Version: "1:2"}})
	if i := slices.Index(args, "--"); args[0] != "install" || i < 0 || !slices.Equal(args[i+1:], []string{"a", "b=1:2"}) || !slices.Contains(args, "--yes") {
		t.Errorf("%q", args)
	}
}

func TestRepositoryFiles(t *testing.T) {
	const key = "/etc/apt/keyrings/kok-software-r.asc"
	for name, c := range map[string]struct {
		source, key, want string
	}{
		"a source without a key stays":           {"deb https://a /", "", "deb https://a /\n"},
		"a key is for its source alone":          {"deb https://a /", "KEY", "deb [signed-by=" + key + "] https://a /\n"},
		"options stay":                           {"deb [arch=amd64] https://a b c", "KEY", "deb [arch=amd64 signed-by=" + key + "] https://a b c\n"},
		"a source that names its key goes by it": {"deb [signed-by=/x.asc] https://a b", "KEY", "deb [signed-by=/x.asc] https://a b\n"},
	} {
		t.Run(name, func(t *testing.T) {
			want := map[string]string{"/etc/apt/sources.list.d/r.list": c.want}
			if c.key != "" {
				want[key] = "KEY\n"
			}
			if got := RepositoryFiles([]bootstrapv1.PackageRepository{{Name: "r", Source: c.source, Key: c.key}}); !maps.Equal(got, want) {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestOfAMachineWithoutAptPackagesAreRefused(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := APT{}.Missing(t.Context(), []bootstrapv1.Package{{Name: "a"}})
	if err == nil || !strings.Contains(err.Error(), "this machine has none; give the component a variant with an archive") {
		t.Error(err)
	}
}
