package ports

import (
	"fmt"
	"strconv"
	"strings"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// Port is a port of a component. Descriptions of components have them.
type Port struct {
	// Name is what its pods call it.
	Name string
	// Offset is its place in the block of a tenant on the host network. It never changes: certificates, members and
	// kubeconfigs of running tenants name the ports.
	Offset int32
	// Usual is its number on the pod network, where each pod has its own; 0 stands for Offset above the port at which API
	// servers are exposed.
	Usual int32
	// Loopback is true where only the pod itself and probes may connect. On the pod network probes come from outside.
	Loopback bool
}

// Ports are the ports of one tenant's components. On the host network each is free on every host node, or
// serves this tenant.
type Ports struct {
	// APIServer is where kube-apiserver serves HTTPS: the first of the block, or the port that is exposed.
	APIServer int32
	// First is the first of the block; 0 on the pod network.
	First int32
}

// Of returns the ports of the block that starts with first.
func Of(first int32) Ports { return Ports{APIServer: first, First: first} }

// OnPodNetwork returns the ports of components on the pod network, where kube-apiserver listens as it is exposed.
func OnPodNetwork(apiServer int32) Ports { return Ports{APIServer: apiServer} }

// Number is the number of a port.
func (p Ports) Number(port Port) int32 {
	switch {
	case port.Offset == 0:
		return p.APIServer
	case p.First != 0:
		return p.First + port.Offset
	case port.Usual != 0:
		return port.Usual
	}
	return p.APIServer + port.Offset
}

// Span is a range of ports, both ends included.
type Span struct {
	First, Last int32
}

// Ranges that host nodes need for other things, with the defaults of Kubernetes and Linux.
var (
	// NodePorts is where kube-proxy serves Services of type NodePort.
	NodePorts = Span{First: 30000, Last: 32767}
	// Ephemeral is where the kernel takes the ports of outgoing connections from.
	Ephemeral = Span{First: 32768, Last: 60999}
)

// DefaultRange is the default range from which blocks are claimed.
var DefaultRange = Span{First: 20000, Last: 29999}

// String is the form that ParseRange reads.
func (s Span) String() string { return fmt.Sprintf("%d-%d", s.First, s.Last) }

// Overlaps says whether the two ranges have a port in common.
func (s Span) Overlaps(other Span) bool { return s.First <= other.Last && other.First <= s.Last }

// Contains says whether all of the other range is in this one.
func (s Span) Contains(other Span) bool { return s.First <= other.First && other.Last <= s.Last }

// Block is the range of ports of the block that starts with first.
func Block(first int32) Span {
	return Span{First: first, Last: first + controlplanev1.PortBlockSize - 1}
}

// ParseRange reads a range of ports, for example "20000-29999", and checks that at least one block
// fits into it and that it is clear of NodePorts and Ephemeral.
func ParseRange(text string) (Span, error) {
	firstText, lastText, found := strings.Cut(text, "-")
	first, err1 := strconv.ParseUint(firstText, 10, 16)
	last, err2 := strconv.ParseUint(lastText, 10, 16)
	if !found || err1 != nil || err2 != nil {
		return Span{}, fmt.Errorf("%q is not a range of ports like %s", text, DefaultRange)
	}
	span := Span{First: int32(first), Last: int32(last)}
	if span.First < 1024 {
		return Span{}, fmt.Errorf("port range %s starts below 1024, where only privileged processes can listen", span)
	}
	if span.Overlaps(NodePorts) {
		return Span{}, fmt.Errorf("port range %s overlaps the range of NodePorts, %s; choose one like %s", span, NodePorts, DefaultRange)
	}
	if span.Overlaps(Ephemeral) {
		return Span{}, fmt.Errorf("port range %s overlaps the range of ephemeral ports, %s; choose one like %s", span, Ephemeral, DefaultRange)
	}
	if span.blocks() < 1 {
		return Span{}, fmt.Errorf("port range %s has no room for a block of %d ports that starts at a multiple of %d",
			span, controlplanev1.PortBlockSize, controlplanev1.PortBlockSize)
	}
	return span, nil
}

// firstBlock is the first port of the first block in the range. Blocks start at multiples of their
// size, so that two of them are the same or have no port in common.
func (s Span) firstBlock() int32 {
	const size = controlplanev1.PortBlockSize
	return (s.First + size - 1) / size * size
}

// blocks is the number of blocks in the range.
func (s Span) blocks() int32 {
	return max(0, (s.Last-s.firstBlock()+1)/controlplanev1.PortBlockSize)
}
