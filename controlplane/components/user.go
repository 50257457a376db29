package components

import (
	"hash/fnv"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// OwnUser is the user and group of a new tenant alone. It goes by the ports that the tenant holds, which nobody else has. Without
// ports, and in a port pool, it goes by the name of the Cluster, so that two tenants hardly ever have the same.
func (in *Input) OwnUser() int64 {
	if !in.OnPodNetwork() && in.Spec.Hosting.PortPool == "" {
		return names.FirstUser + int64(in.Ports.APIServer)
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(in.Cluster.String()))
	return names.FirstHashedUser + int64(hash.Sum64()%uint64(names.HashedUsers))
}
