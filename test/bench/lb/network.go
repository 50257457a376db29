package main

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/prometheus/procfs"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
)

// established is the state of an open connection in /proc/net/tcp.
const established = 1

// network is what the kernel tells of TCP in this network namespace.
type network struct {
	// open connections that hosts of a network accepted, by now.
	open int
	// accepted connections of all since the namespace began.
	accepted int
}

// readNetwork reads /proc.
func readNetwork(hosts netip.Prefix) (network, error) {
	self, err := procfs.Self()
	if err != nil {
		return network{}, err
	}
	counters, err := self.Snmp()
	if err != nil {
		return network{}, err
	}
	if counters.PassiveOpens == nil {
		return network{}, errors.New("/proc/net/snmp has no count of accepted connections")
	}
	files, err := procfs.NewDefaultFS()
	if err != nil {
		return network{}, err
	}
	ends, err := files.NetTCP()
	if err != nil {
		return network{}, fmt.Errorf("read TCP connections: %w", err)
	}
	read := network{accepted: int(*counters.PassiveOpens)}
	for _, end := range ends {
		if near, ok := netip.AddrFromSlice(end.LocalAddr); ok && hosts.Contains(near.Unmap()) && end.LocalPort == components.DefaultAPIServerPort && end.St == established {
			read.open++
		}
	}
	return read, nil
}
