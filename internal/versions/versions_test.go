package versions

import (
	"os"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/mod/modfile"
	corev1 "k8s.io/api/core/v1"
)

// otherwise is how every refusal of a minor ends.
const otherwise = "; to support others, list them in the ConfigMap kok-kubernetes-versions in the namespace of the control plane provider"

func TestNormalize(t *testing.T) {
	for in, want := range map[string]string{
		"1.36.3":     "v1.36.3",
		"v1.36.3":    "v1.36.3",
		"":           "",
		"latest":     "latest",
		"V1.36.3":    "V1.36.3",
		"1.36.0-rc1": "v1.36.0-rc1",
	} {
		NewWithT(t).Expect(Normalize(in)).To(Equal(want), "Normalize(%q)", in)
		NewWithT(t).Expect(Normalize(Normalize(in))).To(Equal(want), "Normalize(%q) twice", in)
	}
}

func TestParse(t *testing.T) {
	g := NewWithT(t)
	for _, good := range []string{"v1.36.3", "v1.36.0-rc.1", "v1.36.3+build.7", "v1.36.3-alpha.1+b"} {
		parsed, err := Parse(good)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(parsed.String()).To(Equal(good))
		g.Expect(parsed.MinorString()).To(Equal("v1.36"))
	}
	for _, bad := range []string{"", "v", "1.36.3", "v1", "v1.36", "v1.36.x", "v01.36.3", "v1.036.3", "v1.-36.3", "v1.+36.3", "v1.36.3.4", "vv1.36.3", "v1.36.3 ", "latest", "v1.36.99999999999999999999"} {
		_, err := Parse(bad)
		g.Expect(err).To(MatchError(ContainSubstring("is not a Kubernetes version of the form v1.36.3")), "Parse(%q)", bad)
	}
}

// Pods carry their version as a label.
func TestAVersionMakesALabel(t *testing.T) {
	for name, tc := range map[string]struct {
		version string
		ok      bool
	}{
		"the longest one":               {"v1.36.3+" + strings.Repeat("a", 55), true},
		"one that is longer":            {"v1.36.3+" + strings.Repeat("a", 56), false},
		"the longest release candidate": {"v1.36.0-" + strings.Repeat("a", 55), true},
		"a longer one":                  {"v1.36.0-" + strings.Repeat("a", 56), false},
		"one that ends with a digit":    {"v1.36.0-rc-1", true},
		"one that ends with a dash":     {"v1.36.0-rc-", false},
		"a build that does":             {"v1.36.3+build-", false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(tc.version)
			if tc.ok {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
			} else {
				NewWithT(t).Expect(err).To(MatchError(ContainSubstring("must have at most 63 characters and end with a letter or a digit")))
			}
		})
	}
}

func TestImageTagHasNoPlus(t *testing.T) {
	g := NewWithT(t)
	g.Expect(ImageTag("v1.36.3+build.7")).To(Equal("v1.36.3_build.7"))
	g.Expect(ImageTag("v1.36.0-rc.1")).To(Equal("v1.36.0-rc.1"))
}

func TestBuiltInTable(t *testing.T) {
	g := NewWithT(t)
	g.Expect(BuiltIn().Minors()).To(Equal([]string{"v1.34", "v1.35", "v1.36"}))
	release, err := BuiltIn().Release("v1.36.3")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(release).To(Equal(Release{Minor: "v1.36", Etcd: "3.6.8-0", CoreDNS: "v1.14.2", Konnectivity: "v0.34.0"}))
}

// Tests run the server and the agent of that version.
func TestKonnectivityIsOfTheVersionThatIsTested(t *testing.T) {
	g := NewWithT(t)
	data, err := os.ReadFile("../../go.mod")
	g.Expect(err).NotTo(HaveOccurred())
	module, err := modfile.ParseLax("go.mod", data, nil)
	g.Expect(err).NotTo(HaveOccurred())
	const source = "sigs.k8s.io/apiserver-network-proxy"
	i := slices.IndexFunc(module.Require, func(r *modfile.Require) bool { return r.Mod.Path == source })
	g.Expect(i).NotTo(Equal(-1), source)
	for _, release := range BuiltIn().releases {
		g.Expect(release.Konnectivity).To(Equal(module.Require[i].Mod.Version), release.Minor)
	}
}

func TestValidate(t *testing.T) {
	for version, want := range map[string]string{
		"v1.34.0":      "",
		"v1.35.4":      "",
		"v1.36.3":      "",
		"v1.36.0-rc.1": "",
		"v1.33.9":      "v1.33 is not supported; supported are v1.34, v1.35 and v1.36" + otherwise,
		"v1.37.0":      "v1.37 is not supported; supported are v1.34, v1.35 and v1.36" + otherwise,
		"v2.36.0":      "v2.36 is not supported; supported are v1.34, v1.35 and v1.36" + otherwise,
		"latest":       `"latest" is not a Kubernetes version of the form v1.36.3`,
	} {
		err := BuiltIn().Validate(version)
		if want == "" {
			NewWithT(t).Expect(err).NotTo(HaveOccurred(), version)
			continue
		}
		NewWithT(t).Expect(err).To(MatchError(want), version)
	}
}

func TestValidateUpgrade(t *testing.T) {
	cases := []struct{ name, from, to, want string }{
		{"next minor", "v1.35.4", "v1.36.3", ""},
		{"newer patch", "v1.36.0", "v1.36.3", ""},
		{"older patch", "v1.36.3", "v1.36.0", ""},
		{"from an unsupported minor", "v1.33.9", "v1.34.0", ""},
		{"from a pre-release", "v1.36.0-rc.1", "v1.36.0", ""},
		{"older minor", "v1.36.3", "v1.35.4", "cannot go back from v1.36.3 to an older minor, which Kubernetes does not support; keep v1.36"},
		{"skipped minor", "v1.34.1", "v1.36.3", "cannot skip minors from v1.34.1; go to v1.35 first"},
		{"to an unsupported minor", "v1.36.3", "v1.37.0", "v1.37 is not supported; supported are v1.34, v1.35 and v1.36" + otherwise},
		{"another major", "v1.36.3", "v2.0.0", "cannot go from v1.36.3 to another major version"},
		{"malformed", "v1.36.3", "v1.36", `"v1.36" is not a Kubernetes version of the form v1.36.3`},
		{"malformed before", "1.36", "v1.36.3", `the current version: "1.36" is not a Kubernetes version of the form v1.36.3`},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			err := BuiltIn().ValidateUpgrade(tc.from, tc.to)
			if tc.want == "" {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				return
			}
			NewWithT(t).Expect(err).To(MatchError(tc.want))
		})
	}
}

func TestLoadRefusesBrokenTables(t *testing.T) {
	cases := []struct{ name, data, want string }{
		{"empty", "", "the table of versions has no releases"},
		{"unknown key", "releases:\n- minor: v1.36\n  etcd: a\n  coreDNS: b\n  dns: b\n", `unknown field "dns"`},
		{"patch in a minor", "releases:\n- minor: v1.36.3\n  etcd: a\n  coreDNS: b\n", `releases[0].minor: "v1.36.3" is not of the form v1.36`},
		{"no etcd", "releases:\n- minor: v1.36\n", `releases[0].etcd: "" is not an image tag`},
		{"no CoreDNS", "releases:\n- minor: v1.36\n  etcd: a\n", `releases[0].coreDNS: "" is not an image tag`},
		{"no konnectivity", "releases:\n- minor: v1.36\n  etcd: a\n  coreDNS: b\n", `releases[0].konnectivity: "" is not an image tag`},
		{"gap", "releases:\n- minor: v1.34\n  etcd: a\n  coreDNS: b\n  konnectivity: c\n- minor: v1.36\n  etcd: a\n  coreDNS: b\n  konnectivity: c\n", "releases[1].minor: v1.36 does not follow v1.34"},
		{"twice", "releases:\n- minor: v1.36\n  etcd: a\n  coreDNS: b\n  konnectivity: c\n- minor: v1.36\n  etcd: a\n  coreDNS: b\n  konnectivity: c\n", "releases[1].minor: v1.36 does not follow v1.36"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Load([]byte(tc.data))
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

func TestLoadAcceptsANewMinor(t *testing.T) {
	g := NewWithT(t)
	table, err := Load([]byte("releases:\n- minor: v1.36\n  etcd: 3.6.8-0\n  coreDNS: v1.14.2\n  konnectivity: v0.34.0\n- minor: v1.37\n  etcd: 3.7.0-0\n  coreDNS: v1.14.2\n  konnectivity: v0.34.0\n"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(table.ValidateUpgrade("v1.36.3", "v1.37.0")).To(Succeed())
	g.Expect(table.Validate("v1.35.0")).To(MatchError("v1.35 is not supported; supported are v1.36 and v1.37" + otherwise))
}

func TestAConfigMapIsTheWholeTable(t *testing.T) {
	g := NewWithT(t)
	table, err := FromConfigMap(&corev1.ConfigMap{Data: map[string]string{
		ConfigMapKey: "releases:\n- minor: v1.37\n  etcd: 3.7.0-0\n  coreDNS: v1.14.2\n  konnectivity: v0.34.0\n", "notes": "ours",
	}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(table.Minors()).To(Equal([]string{"v1.37"}))
}

func TestARefusalOfAConfigMapNamesTheKey(t *testing.T) {
	for name, tc := range map[string]struct {
		data map[string]string
		want string
	}{
		"no data":         {nil, "data has no key versions.yaml"},
		"another key":     {map[string]string{"versions.yml": "releases: []"}, "data has no key versions.yaml"},
		"no releases":     {map[string]string{ConfigMapKey: "releases: []"}, "data[versions.yaml]: the table of versions has no releases"},
		"no YAML":         {map[string]string{ConfigMapKey: "{"}, "data[versions.yaml]: read the table of versions: "},
		"an invalid line": {map[string]string{ConfigMapKey: "releases:\n- minor: \"1.37\"\n"}, `data[versions.yaml]: releases[0].minor: "1.37" is not of the form v1.36`},
	} {
		_, err := FromConfigMap(&corev1.ConfigMap{Data: tc.data})
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring(tc.want)), name)
	}
}

func TestTablesThatSayTheSameAreEqual(t *testing.T) {
	g := NewWithT(t)
	const one = "releases:\n- minor: v1.36\n  etcd: 3.6.8-0\n  coreDNS: v1.14.2\n  konnectivity: v0.34.0\n"
	load := func(text string) *Table {
		table, err := Load([]byte(text))
		g.Expect(err).NotTo(HaveOccurred())
		return table
	}
	g.Expect(load(one).Equal(load("# the same\n" + one))).To(BeTrue())
	g.Expect(load(one).Equal(load(strings.Replace(one, "3.6.8-0", "3.6.8-1", 1)))).To(BeFalse())
	g.Expect(load(one).Equal(BuiltIn())).To(BeFalse())
}
