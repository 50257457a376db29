package hosttest

import (
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

// Keys of authorized_keys, in base64.
const (
	AdminKey  = "AAAAC3NzaC1lZDI1NTE5AAAAIBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ"
	TenantKey = "AAAAC3NzaC1lZDI1NTE5AAAAIHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0"
)

// UserData are the bootstrap data that a Simulated acts on when cloud-init starts.
const UserData = `#cloud-config
write_files:
- path: /etc/systemd/system/kubelet.service
  content: kubelet
- path: /etc/systemd/system/watch@.service
  content: watch
- path: /etc/motd
  content: changed
- path: /etc/systemd/system/containerd.service.d/90-kok-proxy.conf
  content: EnvironmentFile=/etc/kok/proxy.env
- path: ` + onworker.DownloadsFile + `
  encoding: b64
  content: WyIvdXNyL2xvY2FsL2Jpbi9rdWJlbGV0IiwgIi91c3IvbG9jYWwvYmluL2t1YmVsZXQucGFydCIsICIvdXNyL2Jpbi9jdHIiXQo= # /usr/local/bin/kubelet, its .part, /usr/bin/ctr
users:
- default
- name: deploy
  sudo: ALL=(ALL) NOPASSWD:ALL
  ssh_authorized_keys:
  - ssh-ed25519 ` + TenantKey + ` tenant
- name: admin
  ssh_authorized_keys: [ssh-ed25519 ` + AdminKey + `, ssh-ed25519 ` + TenantKey + `]
ntp: {servers: [theirs]}
apt:
  http_proxy: http://theirs.example.com
  sources:
    theirs: {source: deb https://theirs.example.com ./, key: key}
runcmd: []
`

// NodeAddresses is what iproute2 6.1 prints on a node. Some versions print {} for a device without an address.
const NodeAddresses = `[{},{"ifindex":1,"ifname":"lo","addr_info":[{"family":"inet","local":"10.96.0.1","prefixlen":32,"scope":"global","label":"lo"}]},
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
