package host

import (
	"net/netip"
	"testing"
)

func TestNewGivesEachHostItsAddresses(t *testing.T) {
	for name, want := range map[string]struct{ address, pods string }{
		"cloud-1": {"10.210.0.11", "10.240.1.0/24"},
		"idc-1":   {"10.220.0.11", "10.240.101.0/24"},
		"idc-13":  {"10.220.0.23", "10.240.113.0/24"},
	} {
		h, err := New(DefaultNetwork(), t.TempDir(), name)
		if err != nil {
			t.Fatal(err)
		}
		if h.Address != netip.MustParseAddr(want.address) || h.PodCIDR != netip.MustParsePrefix(want.pods) {
			t.Errorf("%s has address %s and pods %s, want %s and %s", name, h.Address, h.PodCIDR, want.address, want.pods)
		}
	}
}

func TestNewRefusesNamesThatGiveNoSiteAndNumber(t *testing.T) {
	for _, name := range []string{"", "idc", "idc-", "idc-0", "idc-01", "idc-100", "edge-1", "idc-1x", "../idc-1"} {
		if h, err := New(DefaultNetwork(), t.TempDir(), name); err == nil {
			t.Errorf("%q was taken as host %s of site %s", name, h.Name, h.Site)
		}
	}
}
