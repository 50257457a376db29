package host

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"
)

func TestNewGivesEachHostItsAddresses(t *testing.T) {
	pods := netip.MustParsePrefix
	for name, want := range map[string]struct {
		address string
		pods    netip.Prefix
	}{
		"cloud-1":  {"10.210.0.11", pods("10.240.1.0/24")},
		"idc-1":    {"10.220.0.11", pods("10.240.101.0/24")},
		"idc-13":   {"10.220.0.23", pods("10.240.113.0/24")},
		"worker-1": {"10.220.0.111", netip.Prefix{}},
	} {
		h, err := New(DefaultNetwork(), t.TempDir(), name)
		if err != nil {
			t.Fatal(err)
		}
		if h.Address != netip.MustParseAddr(want.address) || h.PodCIDR != want.pods {
			t.Errorf("%s has address %s and pods %s, want %s and %s", name, h.Address, h.PodCIDR, want.address, want.pods)
		}
	}
}

func TestNewRefusesNamesThatGiveNoSiteAndNumber(t *testing.T) {
	for _, name := range []string{"", "idc", "idc-", "idc-0", "idc-01", "idc-100", "edge-1", "idc-1x", "worker-0", "../idc-1"} {
		if h, err := New(DefaultNetwork(), t.TempDir(), name); err == nil {
			t.Errorf("%q was taken as host %s of site %s", name, h.Name, h.Site)
		}
	}
}

func TestTheOwnerOfAHostIsRecorded(t *testing.T) {
	state := t.TempDir()
	for name, owner := range map[string]string{"worker-1": "", "worker-2": "bench"} {
		h, err := New(DefaultNetwork(), state, name)
		if err != nil {
			t.Fatal(err)
		}
		h.Owner = owner
		if err := os.MkdirAll(filepath.Join(state, "hosts", name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := h.save(); err != nil {
			t.Fatal(err)
		}
	}
	hosts, err := List(DefaultNetwork(), state)
	if err != nil || len(hosts) != 2 || hosts[0].Owner != "" || hosts[1].Owner != "bench" {
		t.Errorf("hosts are %+v, %v", hosts, err)
	}
}
