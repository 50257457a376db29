package versions

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestValidateKubelets(t *testing.T) {
	const advice = ": API servers of v1.38 need kubelets of v1.35 or newer; upgrade these workers to at least v1.35 first"
	for name, tc := range map[string]struct {
		to   string
		are  []string
		want string
	}{
		"there is no Node":                                   {to: "v1.38.0"},
		"kubelets of the minor":                              {to: "v1.38.0", are: []string{"v1.38.0", "v1.38.7"}},
		"three minors older":                                 {to: "v1.38.0", are: []string{"v1.35.0"}},
		"three minors older, and a pre-release":              {to: "v1.38.0", are: []string{"v1.35.0-rc.1"}},
		"four minors older":                                  {to: "v1.38.0", are: []string{"v1.34.9"}, want: "the kubelet of Node n0 is v1.34.9" + advice},
		"four minors older, of a vendor":                     {to: "v1.38.0", are: []string{"v1.34.9-vendor.2+b1"}, want: "the kubelet of Node n0 is v1.34.9-vendor.2+b1" + advice},
		"four minors older than a pre-release":               {to: "v1.38.0-rc.1", are: []string{"v1.34.9"}, want: "the kubelet of Node n0 is v1.34.9" + advice},
		"the oldest of several is named":                     {to: "v1.38.0", are: []string{"v1.37.1", "v1.34.10", "v1.34.9", "v1.33.0"}, want: "the kubelet of Node n3 is v1.33.0, and 2 more are too old" + advice},
		"of those of one version, the first by its name":     {to: "v1.38.0", are: []string{"v1.38.0", "v1.34.9", "v1.34.9"}, want: "the kubelet of Node n1 is v1.34.9, and 1 more are too old" + advice},
		"a kubelet that is newer than the API servers":       {to: "v1.38.0", are: []string{"v1.39.0"}},
		"one that tells no version":                          {to: "v1.38.0", are: []string{"", "unknown", "N/A"}},
		"one that tells no version beside one too old":       {to: "v1.38.0", are: []string{"", "v1.34.9"}, want: "the kubelet of Node n1 is v1.34.9" + advice},
		"a version of API servers that is none":              {to: "v1.38", are: []string{"v1.34.9"}, want: `"v1.38" is not a Kubernetes version of the form v1.36.3`},
		"API servers of a minor that has none so much older": {to: "v1.2.0", are: []string{"v1.0.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			var kubelets []Kubelet
			for i, is := range tc.are {
				kubelets = append(kubelets, Kubelet{Node: "n" + string(rune('0'+i)), Version: is})
			}
			err := ValidateKubelets(tc.to, kubelets)
			if tc.want == "" {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				return
			}
			NewWithT(t).Expect(err).To(MatchError(tc.want))
		})
	}
}
