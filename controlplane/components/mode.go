package components

import (
	"fmt"
	"net/netip"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// Exposure is where API servers on the pod network are reached. It is empty on the host network, where
// each is reached at its node and the tenant's port.
type Exposure struct {
	// Address is one that all API servers share and advertise; empty when each has that of its node.
	Address string `json:"address,omitempty"`
	// Port is the one that is exposed, and that API servers listen on.
	Port int32 `json:"port,omitempty"`
}

// AddrPort is the address that all API servers share, with its port; the zero value when each has that of its node.
func (e Exposure) AddrPort() (netip.AddrPort, error) {
	if e.Address == "" {
		return netip.AddrPort{}, nil
	}
	address, err := netip.ParseAddr(e.Address)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("read the address of the API servers: %w", err)
	}
	return netip.AddrPortFrom(address, uint16(e.Port)), nil
}

// OnPodNetwork reports whether pods are on the host cluster's pod network, not on that of their hosts.
func (in *Input) OnPodNetwork() bool { return in.Spec.Hosting.OnPodNetwork() }

// ProbeAddress is where a component listens for what only probes request, by plain HTTP: on loopback, which
// kubelet shares on the host network. To a pod on its own network kubelet comes from outside, at the
// given wildcard address; a NetworkPolicy keeps others away.
func (in *Input) ProbeAddress(wildcard string) string {
	if in.OnPodNetwork() {
		return wildcard
	}
	return "127.0.0.1"
}

// Rollout is how pods are replaced one by one. Two of one component cannot share a host's port, so that
// on the host network the old one goes first; else the new one comes first.
func (in *Input) Rollout() (maxSurge, maxUnavailable *intstr.IntOrString) {
	if in.OnPodNetwork() {
		return ptr.To(intstr.FromInt32(1)), ptr.To(intstr.FromInt32(0))
	}
	return ptr.To(intstr.FromInt32(0)), ptr.To(intstr.FromInt32(1))
}
