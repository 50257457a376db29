package services

import (
	"strings"
	"testing"
)

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
