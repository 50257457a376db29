package configuration

import (
	"cmp"
	"fmt"
)

const (
	// perConnection is how many descriptors a connection takes: the client's and the server's.
	perConnection = 2
	// mostConnections bounds the connections of a listener even when there are enough descriptors: connections take memory, too.
	mostConnections = 1 << 14
)

// Bounds are how many connections may be open at the same time.
type Bounds struct {
	// Listen bounds clients at ListenAddress, such as kubelet. Service bounds pods, PerSource one pod.
	Listen, Service, PerSource int
	// Additional bounds the clients of each of AdditionalListeners.
	Additional int
}

// DescriptorBounds are the default bounds of a process with a number of file descriptors. A third of them are for
// ListenAddress, a third for the Service, and an eighth of that for one pod. The rest is for additional listeners, attempts
// at servers, probes and status.
func (c *Configuration) DescriptorBounds(descriptors uint64) (Bounds, error) {
	third := max(1, int(min(descriptors/3/perConnection, mostConnections)))
	b := Bounds{Listen: cmp.Or(c.MaxConnections, third), Service: cmp.Or(c.MaxServiceConnections, third), Additional: max(1, third/16)}
	b.PerSource = cmp.Or(c.MaxServiceConnectionsPerSource, max(1, b.Service/8))
	// Numbers that a person set must leave a third of the descriptors to the rest, too, as the defaults do.
	needed := uint64(perConnection) * (uint64(b.Listen) + uint64(b.Service))
	if most := descriptors - descriptors/3; needed > most && (c.MaxConnections > 0 || c.MaxServiceConnections > 0) {
		return Bounds{}, fmt.Errorf(
			"maxConnections %d and maxServiceConnections %d need %d file descriptors, and of the %d that this program may have they get %d: "+
				"lower them, or raise LimitNOFILE of its unit", b.Listen, b.Service, needed, descriptors, most)
	}
	return b, nil
}
