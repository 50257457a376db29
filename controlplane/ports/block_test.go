package ports

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestNumbers(t *testing.T) {
	for name, test := range map[string]struct {
		ports Ports
		port  Port
		want  int32
	}{
		"the API server's is the first of the block":             {Of(20040), Port{}, 20040},
		"another's is its place in the block":                    {Of(20040), Port{Offset: 8, Usual: 10259}, 20048},
		"the API server's on the pod network is the exposed one": {OnPodNetwork(31234), Port{}, 31234},
		"another's on the pod network is the usual one":          {OnPodNetwork(31234), Port{Offset: 8, Usual: 10259}, 10259},
		"one without a usual number goes by the exposed one":     {OnPodNetwork(31234), Port{Offset: 9}, 31243},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.ports.Number(test.port); got != test.want {
				t.Errorf("it is %d, want %d", got, test.want)
			}
		})
	}
}

func TestParseRange(t *testing.T) {
	cases := []struct {
		text   string
		blocks int32
		want   string
	}{
		{"20000-29999", 500, ""},
		{"20001-20059", 2, ""},
		{"61000-65535", 226, ""},
		{"20000-20019", 1, ""},
		{"", 0, `"" is not a range of ports like 20000-29999`},
		{"20000", 0, `"20000" is not a range of ports like 20000-29999`},
		{"20000-70000", 0, `"20000-70000" is not a range of ports like 20000-29999`},
		{"-1-20000", 0, `"-1-20000" is not a range of ports like 20000-29999`},
		{"1000-2000", 0, "port range 1000-2000 starts below 1024, where only privileged processes can listen"},
		{"20000-30000", 0, "port range 20000-30000 overlaps the range of NodePorts, 30000-32767; choose one like 20000-29999"},
		{"40000-50000", 0, "port range 40000-50000 overlaps the range of ephemeral ports, 32768-60999; choose one like 20000-29999"},
		{"20001-20030", 0, "port range 20001-20030 has no room for a block of 20 ports that starts at a multiple of 20"},
		{"29999-20000", 0, "port range 29999-20000 has no room for a block of 20 ports that starts at a multiple of 20"},
	}
	for _, tc := range cases {
		g := NewWithT(t)
		span, err := ParseRange(tc.text)
		if tc.want != "" {
			g.Expect(err).To(MatchError(tc.want))
			continue
		}
		g.Expect(err).NotTo(HaveOccurred(), tc.text)
		g.Expect(span.String()).To(Equal(tc.text))
		g.Expect(span.blocks()).To(Equal(tc.blocks), tc.text)
	}
}

func TestDefaultRangeIsAllowed(t *testing.T) {
	g := NewWithT(t)
	span, err := ParseRange(DefaultRange.String())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(span).To(Equal(DefaultRange))
}
