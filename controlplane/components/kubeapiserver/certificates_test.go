package kubeapiserver

import "testing"

func TestFirstAddressesOfServiceRanges(t *testing.T) {
	for cidr, want := range map[string]string{
		"10.96.0.0/12": "10.96.0.1", "10.96.5.0/12": "10.96.0.1", "10.0.0.248/29": "10.0.0.249", "fd00::/112": "fd00::1", "fd00:96::abcd/112": "fd00:96::1",
	} {
		got, err := firstServiceAddresses([]string{cidr})
		if err != nil || len(got) != 1 || got[0].String() != want {
			t.Errorf("of %s it is %v, %v", cidr, got, err)
		}
	}
}
