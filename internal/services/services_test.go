package services

import (
	"slices"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestAClusterThatNamesNoNetworkHasKubeadms(t *testing.T) {
	cluster := &clusterv1.Cluster{}
	if cidrs, domain := CIDRs(cluster), DNSDomain(cluster); !slices.Equal(cidrs, []string{"10.96.0.0/12"}) || domain != "cluster.local" {
		t.Errorf("%v, %s", cidrs, domain)
	}
	cluster.Spec.ClusterNetwork.Services.CIDRBlocks, cluster.Spec.ClusterNetwork.ServiceDomain = []string{"fd00:96::/112"}, "tenant.example"
	if cidrs, domain := CIDRs(cluster), DNSDomain(cluster); !slices.Equal(cidrs, []string{"fd00:96::/112"}) || domain != "tenant.example" {
		t.Errorf("%v, %s", cidrs, domain)
	}
}

func TestNetworks(t *testing.T) {
	for name, cidrs := range map[string][]string{"two": {"10.96.0.0/12", "fd00:96::/112"}, "two in one string": {"10.96.0.0/12,fd00:96::/112"}} {
		networks, err := Networks(cidrs)
		if err != nil || len(networks) != 2 || networks[0].String() != "10.96.0.0/12" || networks[1].String() != "fd00:96::/112" {
			t.Errorf("%s: %v, %v", name, networks, err)
		}
	}
	if _, err := Networks([]string{"10.96.0.0"}); err == nil || !strings.HasPrefix(err.Error(), "spec.clusterNetwork.services.cidrBlocks of the Cluster") {
		t.Errorf("it says %v", err)
	}
}

func TestAddresses(t *testing.T) {
	for name, test := range map[string]struct {
		cidrs    []string
		api, dns string
	}{
		"IPv4":                           {[]string{"10.96.0.0/16"}, "10.96.0.1:443", "10.96.0.10"},
		"the smallest":                   {[]string{"10.96.0.0/28"}, "10.96.0.1:443", "10.96.0.10"},
		"IPv6":                           {[]string{"fd00:96::/112"}, "[fd00:96::1]:443", "fd00:96::a"},
		"dual-stack, the first of two":   {[]string{"fd00:96::/112", "10.96.0.0/16"}, "[fd00:96::1]:443", "fd00:96::a"},
		"dual-stack, both in one string": {[]string{"10.96.0.0/16,fd00:96::/112"}, "10.96.0.1:443", "10.96.0.10"},
	} {
		t.Run(name, func(t *testing.T) {
			api, apiErr := API(test.cidrs)
			dns, dnsErr := DNS(test.cidrs)
			if apiErr != nil || dnsErr != nil || api != test.api || dns != test.dns {
				t.Errorf("%s, %v, %s, %v", api, apiErr, dns, dnsErr)
			}
		})
	}
}

func TestMistakesNameTheField(t *testing.T) {
	for name, cidrs := range map[string][]string{"none": nil, "no CIDR": {"10.96.0.0"}, "too small": {"10.96.0.0/30"}} {
		t.Run(name, func(t *testing.T) {
			if _, err := DNS(cidrs); err == nil || !strings.HasPrefix(err.Error(), "spec.clusterNetwork.services.cidrBlocks of the Cluster") {
				t.Errorf("it says %v", err)
			}
		})
	}
}
