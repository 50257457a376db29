package hosts

import (
	"fmt"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
)

// aNodesAddresses is what iproute2 6.1 says of a node; some versions describe a device without an address as {}.
const aNodesAddresses = `[{},{"ifindex":1,"ifname":"lo","addr_info":[{"family":"inet","local":"10.96.0.1","prefixlen":32,"scope":"global","label":"lo"}]},
{"ifindex":2,"ifname":"bond0","mtu":1500,"addr_info":[
 {"family":"inet6","local":"2001:db8::7","prefixlen":64,"scope":"global","dynamic":true,"mngtmpaddr":true},
 {"family":"inet6","local":"2001:db8::8","prefixlen":64,"scope":"global","temporary":true,"dynamic":true},
 {"family":"inet6","local":"2001:db8::9","prefixlen":64,"scope":"global","deprecated":true},
 {"family":"inet6","local":"2001:db8::a","prefixlen":64,"scope":"global","tentative":true},
 {"family":"inet6","local":"2001:db8::b","prefixlen":64,"scope":"global","dadfailed":true,"tentative":true},
 {"family":"inet6","local":"fe80::1","prefixlen":64,"scope":"link"},
 {"family":"inet","local":"192.0.2.7","prefixlen":24,"broadcast":"192.0.2.255","scope":"global","label":"bond0"}]},
{"ifindex":3,"ifname":"eth1.20","addr_info":[{"family":"inet","local":"198.51.100.7","prefixlen":24,"scope":"global"}]},
{"ifindex":4,"ifname":"br0","addr_info":[{"family":"inet","local":"198.51.100.7","prefixlen":32,"scope":"global"}]},
{"ifindex":5,"ifname":"docker0","addr_info":[{"family":"inet","local":"172.17.0.1","prefixlen":16,"scope":"global"}]},
{"ifindex":11,"ifname":"br-1a2b3c4d5e6f","addr_info":[{"family":"inet","local":"172.18.0.1","prefixlen":16,"scope":"global"}]},
{"ifindex":12,"ifname":"br-eth0","addr_info":[{"family":"inet","local":"198.51.100.8","prefixlen":24,"scope":"global"}]},
{"ifindex":13,"ifname":"br-ex","addr_info":[{"family":"inet","local":"198.51.100.9","prefixlen":24,"scope":"global"}]},
{"ifindex":6,"ifname":"cni0","addr_info":[{"family":"inet","local":"10.244.1.1","prefixlen":24,"scope":"global"}]},
{"ifindex":7,"ifname":"flannel.1","addr_info":[{"family":"inet","local":"10.244.1.0","prefixlen":32,"scope":"global"}]},
{"ifindex":8,"ifname":"kube-ipvs0","addr_info":[{"family":"inet","local":"10.96.0.1","prefixlen":32,"scope":"global"}]},
{"ifindex":9,"ifname":"cilium_host","addr_info":[{"family":"inet","local":"10.0.1.1","prefixlen":32,"scope":"global"}]},
{"ifindex":10,"ifname":"eth2","addr_info":[]}]`

func TestTheAddressesOfAHostAreItsOwn(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*simulated)
		want string
	}{
		"of a node, without those of its pods and Services": {func(s *simulated) {
			s.answers["ip -json address show scope global"] = ssh.Result{Stdout: []byte(aNodesAddresses)}
		}, "[192.0.2.7 198.51.100.7 198.51.100.8 198.51.100.9 2001:db8::7]"},
		"of a host that has none":         {func(*simulated) {}, "[]"},
		"are not asked of one without ip": {func(s *simulated) { s.remove("/usr/bin/ip") }, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSimulated(t)
			test.edit(s)
			facts, _, err := New(s, "admin").Probe(t.Context())
			if err != nil || fmt.Sprint(facts.Addresses) != test.want {
				t.Errorf("%+v, %v", facts, err)
			}
		})
	}
}
