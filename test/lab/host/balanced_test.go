package host

import (
	"fmt"
	"testing"
)

func TestNoHostHasAnAddressForLoadBalancers(t *testing.T) {
	network := DefaultNetwork()
	first, last := network.Balanced()
	if !network.IDC.Contains(first) || !network.IDC.Contains(last) || !first.Less(last) {
		t.Fatalf("%s to %s are no addresses of the data centre, %s", first, last, network.IDC)
	}
	for _, group := range groups {
		for n := 1; n <= 99; n++ {
			h, err := New(network, t.TempDir(), fmt.Sprintf("%s-%d", group.name, n))
			if err != nil {
				t.Fatal(err)
			}
			if h.Site == SiteIDC && !h.Address.Less(first) && !last.Less(h.Address) {
				t.Errorf("%s has %s, which is for load balancers", h.Name, h.Address)
			}
		}
	}
}
