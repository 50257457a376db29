package controllers

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/ownership"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/probe"
)

// kubelet serves at the address of its default route, which need not be the one that the host is reached at.
func TestAMachineHasAllAddressesOfItsHost(t *testing.T) {
	name := clusterv1.MachineAddress{Type: clusterv1.MachineHostName, Address: "worker-1"}
	ip := func(address string) clusterv1.MachineAddress {
		return clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: address}
	}
	for what, test := range map[string]struct {
		reached string
		own     []string
		want    []clusterv1.MachineAddress
	}{
		"one that is reached by name": {"host-1.example", []string{"192.0.2.7", "2001:db8::7"},
			[]clusterv1.MachineAddress{name, {Type: clusterv1.MachineInternalDNS, Address: "host-1.example"}, ip("192.0.2.7"), ip("2001:db8::7")}},
		"one that is reached at its own address":           {"192.0.2.7", []string{"192.0.2.7", "198.51.100.7"}, []clusterv1.MachineAddress{name, ip("192.0.2.7"), ip("198.51.100.7")}},
		"one that is reached at its own, written at large": {"2001:DB8:0::7", []string{"2001:db8::7"}, []clusterv1.MachineAddress{name, ip("2001:DB8:0::7")}},
		"one that has not said what it has":                {"192.0.2.7", nil, []clusterv1.MachineAddress{name, ip("192.0.2.7")}},
	} {
		host := &infrav1.IDCHost{}
		host.Spec.Address, host.Status.Addresses = test.reached, test.own
		if diff := cmp.Diff(test.want, addresses(host, &infrav1.IDCMachine{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}})); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
}

func TestWhatATenantAddsToItsNodeIsNotAnAddressOfTheHost(t *testing.T) {
	own, added := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("192.0.2.8")
	host := &infrav1.IDCHost{}
	for _, step := range []struct {
		when  string
		claim *infrav1.HostClaim
		has   []netip.Addr
		want  []string
	}{
		{"free", nil, []netip.Addr{own}, []string{"192.0.2.7"}},
		{"claimed", &infrav1.HostClaim{Name: "worker-1"}, []netip.Addr{own, added}, []string{"192.0.2.7"}},
		{"free again, with another address", nil, []netip.Addr{added}, []string{"192.0.2.8"}},
		{"free, without any", nil, nil, nil},
		{"claimed, and not asked since it was moved here", &infrav1.HostClaim{Name: "worker-1"}, []netip.Addr{own}, []string{"192.0.2.7"}},
		{"free, with more than there is room for", nil, many(100), texts(many(maxAddresses))},
	} {
		host.Spec.Claim = step.claim
		setFacts(host, &probe.Facts{Usage: ownership.Usage{Addresses: step.has}})
		if diff := cmp.Diff(step.want, host.Status.Addresses); diff != "" {
			t.Errorf("%s: %s", step.when, diff)
		}
	}
}

func many(n int) []netip.Addr {
	all := []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	for len(all) < n {
		all = append(all, all[len(all)-1].Next())
	}
	return all
}

func texts(all []netip.Addr) []string {
	var found []string
	for _, address := range all {
		found = append(found, address.String())
	}
	return found
}
