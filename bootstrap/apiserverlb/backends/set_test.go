package backends

import (
	"errors"
	"net/netip"
	"testing"
)

func TestAListOfNothingButTheLoadBalancerItselfIsEmpty(t *testing.T) {
	const seed, own = "10.0.0.1:6443", "127.0.0.1:6443"
	if _, err := NewSet([]string{own}, nil, []netip.AddrPort{netip.MustParseAddrPort(own)}); !errors.Is(err, ErrEmpty) {
		t.Errorf("as seeds: %v", err)
	}
	set, err := NewSet([]string{seed}, nil, []netip.AddrPort{netip.MustParseAddrPort(own)})
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Confirm([]string{"", own}); !errors.Is(err, ErrEmpty) {
		t.Errorf("as the EndpointSlice: %v", err)
	}
	if all := set.All(); set.Confirmed() || len(all) != 1 || !all[0].Listed() {
		t.Errorf("the members changed: %d, confirmed %t", len(all), set.Confirmed())
	}
}
