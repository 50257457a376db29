package choose

import (
	"strings"
	"testing"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/facts"
)

var bookworm = facts.Facts{OS: "debian", OSVersion: "12", Architecture: "amd64"}

func component(name string, after ...string) bootstrapv1.SoftwareComponent {
	return bootstrapv1.SoftwareComponent{Name: name, After: after}
}

func TestTheOrderIsThatOfAfter(t *testing.T) {
	for name, c := range map[string]struct {
		components []bootstrapv1.SoftwareComponent
		want       string
	}{
		"without after it is the document's":   {[]bootstrapv1.SoftwareComponent{component("b"), component("a")}, "b a"},
		"each comes after those that it names": {[]bootstrapv1.SoftwareComponent{component("kubelet", "containerd", "cni"), component("cni"), component("containerd", "runc"), component("runc")}, "runc containerd cni kubelet"},
		"two may come after the same":          {[]bootstrapv1.SoftwareComponent{component("a", "c"), component("b", "c"), component("c")}, "c a b"},
		"an unknown name is refused":           {[]bootstrapv1.SoftwareComponent{component("a", "x")}, "component a: after: there is no component x"},
		"a circle is refused":                  {[]bootstrapv1.SoftwareComponent{component("z", "a"), component("a", "b"), component("b", "c"), component("c", "a")}, "in a circle: a after b after c after a"},
		"one that comes after itself is, too":  {[]bootstrapv1.SoftwareComponent{component("a", "a")}, "in a circle: a after a"},
	} {
		t.Run(name, func(t *testing.T) {
			choices, err := Choose(software.Document{Components: c.components}, bookworm)
			var names []string
			for _, choice := range choices {
				names = append(names, choice.Component.Name)
			}
			if err != nil && strings.Contains(err.Error(), c.want) {
				return
			}
			if got := strings.Join(names, " "); err != nil || got != c.want {
				t.Errorf("%s: %v", got, err)
			}
		})
	}
}

func TestTheFirstVariantThatMatchesCounts(t *testing.T) {
	variant := func(digest string, match bootstrapv1.SoftwareMatch) bootstrapv1.SoftwareVariant {
		return bootstrapv1.SoftwareVariant{Match: match, Archive: bootstrapv1.SoftwareArchive{SHA256: digest}}
	}
	all := []bootstrapv1.SoftwareVariant{
		variant("arm", bootstrapv1.SoftwareMatch{Architectures: []bootstrapv1.Architecture{"arm64"}}),
		variant("older", bootstrapv1.SoftwareMatch{OS: []string{"debian"}, Version: "v1.35.0"}),
		variant("debian", bootstrapv1.SoftwareMatch{OS: []string{"ubuntu", "debian"}, OSVersions: []string{"12", "13"}}),
		variant("later", bootstrapv1.SoftwareMatch{OS: []string{"debian"}}),
	}
	for name, c := range map[string]struct {
		machine facts.Facts
		version string
		want    string
	}{
		"by distribution and version":        {bookworm, "v1.36.0", "debian"},
		"by the Kubernetes version":          {bookworm, "v1.35.0", "older"},
		"by the architecture":                {facts.Facts{OS: "fedora", Architecture: "arm64"}, "v1.36.0", "arm"},
		"another version takes a later one":  {facts.Facts{OS: "debian", OSVersion: "11", Architecture: "amd64"}, "v1.36.0", "later"},
		"an unknown distribution is refused": {facts.Facts{OS: "fedora", OSVersion: "41", Architecture: "amd64"}, "v1.36.0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			document := software.Document{Name: "workers", Version: c.version, Components: []bootstrapv1.SoftwareComponent{{Name: "kubelet", Variants: all}}}
			choices, err := Choose(document, c.machine)
			if c.want != "" {
				if err != nil || choices[0].Variant.Archive.SHA256 != c.want {
					t.Errorf("%+v: %v", choices, err)
				}
				return
			}
			result := software.ResultOf(err)
			const message = "component kubelet: this machine is fedora 41 on amd64 with Kubernetes v1.36.0, and there are variants only for " +
				"any distribution on arm64; debian with Kubernetes v1.35.0; ubuntu or debian 12 or 13; debian. Use a machine that one of them is for, " +
				"or make another KOKSoftware than workers with a variant for this one"
			if result.Reason != software.NoVariant || result.Component != "kubelet" || result.Message != message {
				t.Errorf("%+v", result)
			}
		})
	}
	t.Run("a variant without match is for all machines", func(t *testing.T) {
		document := software.Document{Components: []bootstrapv1.SoftwareComponent{{Name: "a", Variants: []bootstrapv1.SoftwareVariant{variant("any", bootstrapv1.SoftwareMatch{})}}}}
		if choices, err := Choose(document, facts.Facts{}); err != nil || choices[0].Variant.Archive.SHA256 != "any" {
			t.Errorf("%+v: %v", choices, err)
		}
	})
}
