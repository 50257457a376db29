package ports

import (
	"reflect"
	"testing"

	. "github.com/onsi/gomega"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

func TestPortsNeverMove(t *testing.T) {
	NewWithT(t).Expect(Of(20040)).To(Equal(Ports{
		APIServer:          20040,
		EtcdData:           EtcdPorts{Client: 20041, Peer: 20042, Metrics: 20043},
		EtcdEvents:         EtcdPorts{Client: 20044, Peer: 20045, Metrics: 20046},
		ControllerManager:  20047,
		Scheduler:          20048,
		KonnectivityAgent:  20049,
		KonnectivityAdmin:  20050,
		KonnectivityHealth: 20051,
	}))
}

func TestPortsAreDistinctAndInTheBlock(t *testing.T) {
	g := NewWithT(t)
	seen := map[int64]bool{}
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		if v.Kind() == reflect.Struct {
			for i := range v.NumField() {
				walk(v.Field(i))
			}
			return
		}
		g.Expect(seen).NotTo(HaveKey(v.Int()))
		seen[v.Int()] = true
		g.Expect(v.Int()).To(And(BeNumerically(">=", 20040), BeNumerically("<", 20040+controlplanev1.PortBlockSize)))
	}
	walk(reflect.ValueOf(Of(20040)))
	g.Expect(seen).To(HaveLen(12))
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
