package components

import "hash/fnv"

// Users and groups of tenants are far from those that distributions and container engines give away. Their numbers never
// change: files of running members belong to them.
const (
	// firstUser is added to the first host port of a tenant, which no other tenant of the host cluster has.
	firstUser int64 = 1_000_000_000
	// firstHashedUser begins those of tenants on the pod network, which have no ports of hosts.
	firstHashedUser int64 = 1_100_000_000
	hashedUsers     int64 = 1_000_000_000
)

// OwnUser is the user and group of a new tenant alone. On the host network it goes by the ports that the tenant holds; on the pod
// network by the name of its Cluster, so that two tenants hardly ever have the same.
func (in *Input) OwnUser() int64 {
	if !in.OnPodNetwork() {
		return firstUser + int64(in.Ports.APIServer)
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(in.Cluster.String()))
	return firstHashedUser + int64(hash.Sum64()%uint64(hashedUsers))
}
