package clusters

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func cluster(name, services, pods string) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if services != "" {
		c.Spec.ClusterNetwork.Services.CIDRBlocks = strings.Split(services, ",")
	}
	if pods != "" {
		c.Spec.ClusterNetwork.Pods.CIDRBlocks = strings.Split(pods, ",")
	}
	return c
}

func TestValidateName(t *testing.T) {
	g := NewWithT(t)
	g.Expect(MaxNameLength).To(Equal(40))
	longest := strings.Repeat("a", 40)
	for name, want := range map[string]string{
		"tenant-1":    "",
		longest:       "",
		longest + "a": `metadata.name: Invalid value: "` + longest + `a": must be at most 40 characters: names and labels of the control plane's objects start with it`,
		"1st":         `metadata.name: Invalid value: "1st": must be lower case letters, digits and '-', start with a letter and end with a letter or digit: Services of the control plane are named after it`,
		"a.b":         `metadata.name: Invalid value: "a.b": must be lower case letters, digits and '-', start with a letter and end with a letter or digit: Services of the control plane are named after it`,
	} {
		expectErrors(t, name, ValidateName(cluster(name, "", "")).ToAggregate(), want)
	}
}

func TestValidateClusterNetwork(t *testing.T) {
	const services, pods = "spec.clusterNetwork.services.cidrBlocks", "spec.clusterNetwork.pods.cidrBlocks"
	cases := []struct{ name, services, pods, want string }{
		{"nothing given", "", "", ""},
		{"usual ranges", "10.96.0.0/12", "192.168.0.0/16", ""},
		{"a large service range", "10.0.0.0/8", "192.168.0.0/16", ""},
		{"the smallest service range", "10.96.0.0/28", "192.168.0.0/16", ""},
		{"dual-stack", "10.96.0.0/12,fd00:1::/108", "192.168.0.0/16,fd00:2::/56", ""},
		{"dual-stack with IPv6 first", "fd00:1::/108,10.96.0.0/12", "fd00:2::/56,192.168.0.0/16", ""},
		{"dual-stack pods only", "10.96.0.0/12", "192.168.0.0/16,fd00:2::/56", ""},
		{"no CIDR", "10.96.0.0", "", services + `[0]: Invalid value: "10.96.0.0": must be a range in CIDR notation, for example 10.96.0.0/12`},
		{"nonsense", "", "pods", pods + `[0]: Invalid value: "pods": must be a range in CIDR notation, for example 10.96.0.0/12`},
		{"host bits", "10.96.0.1/16", "", services + `[0]: Invalid value: "10.96.0.1/16": must start at the first address of the range: 10.96.0.0/16`},
		{"IPv4 in IPv6", "", "::ffff:10.0.0.0/104", pods + `[0]: Invalid value: "::ffff:10.0.0.0/104": must not be an IPv4 range written as IPv6`},
		{"overlap", "10.96.0.0/12", "10.100.0.0/16", pods + `[0]: Invalid value: "10.100.0.0/16": overlaps 10.96.0.0/12, the range of Services; choose ranges without a common address`},
		{"overlap with the default", "", "10.0.0.0/8", pods + `[0]: Invalid value: "10.0.0.0/8": overlaps 10.96.0.0/12 (the default), the range of Services; choose ranges without a common address`},
		{"overlap of the second", "10.96.0.0/12,fd00::/108", "192.168.0.0/16,fd00::/56", pods + `[1]: Invalid value: "fd00::/56": overlaps fd00::/108, the range of Services; choose ranges without a common address`},
		{"too small", "10.96.0.0/29", "", services + `[0]: Invalid value: "10.96.0.0/29": is too small: the DNS Service has its tenth address, choose a /28 or larger`},
		{"too small for IPv6", "fd00::/125", "", services + `[0]: Invalid value: "fd00::/125": is too small: the DNS Service has its tenth address, choose a /124 or larger`},
		{"the smallest second range", "10.96.0.0/28,fd00:1::/125", "192.168.0.0/16,fd00:2::/56", ""},
		{"too small a second range", "10.96.0.0/28,fd00:1::/126", "192.168.0.0/16,fd00:2::/56", services + `[1]: Invalid value: "fd00:1::/126": is too small: kube-apiserver needs a /125 or larger`},
		{"too large for IPv6", "fd00::/48", "", services + `[0]: Invalid value: "fd00::/48": is too large: kube-apiserver allocates from an IPv6 range of /64 or smaller`},
		{"one family twice", "10.96.0.0/16,10.97.0.0/16", "", services + `[1]: Invalid value: "10.97.0.0/16": must be of the other IP family than the first: two ranges are for dual-stack only`},
		{"three ranges", "", "10.0.0.0/16,fd00::/56,10.1.0.0/16", pods + `: Too many: 3: must have at most 2 items`},
		{"families differ", "10.96.0.0/12", "fd00::/56", pods + `[0]: Invalid value: "fd00::/56": must be of the same IP family as 10.96.0.0/12, the first range of Services`},
		{"pods lack a family", "10.96.0.0/12,fd00:1::/108", "192.168.0.0/16", pods + `: Invalid value: "[192.168.0.0/16]": must have a range of both IP families, as services have`},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			expectErrors(t, tc.name, ValidateClusterNetwork(cluster("a", tc.services, tc.pods)).ToAggregate(), tc.want)
		})
	}
}

func TestValidateSaysEverythingAtOnce(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Validate(cluster("1st", "10.96.0.0/30", "10.96.0.0/16"))).To(HaveLen(3))
}

func TestValidateServiceDomain(t *testing.T) {
	for domain, want := range map[string]string{
		"":              "",
		"tenant.local":  "",
		"Tenant.local":  "a lowercase RFC 1123 subdomain must consist of",
		".local":        "a lowercase RFC 1123 subdomain must consist of",
		"local\nissuer": "a lowercase RFC 1123 subdomain must consist of",
	} {
		c := cluster("a", "", "")
		c.Spec.ClusterNetwork.ServiceDomain = domain
		errs := Validate(c)
		if want == "" {
			NewWithT(t).Expect(errs).To(BeEmpty(), domain)
			continue
		}
		NewWithT(t).Expect(errs).To(ConsistOf(And(
			HaveField("Field", "spec.clusterNetwork.serviceDomain"), HaveField("Detail", HavePrefix(want)))), domain)
	}
}

func expectErrors(t *testing.T, name string, err error, want string) {
	t.Helper()
	g := NewWithT(t)
	if want == "" {
		g.Expect(err).NotTo(HaveOccurred(), name)
		return
	}
	g.Expect(err).To(MatchError(want), name)
}
