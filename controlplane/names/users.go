package names

// Users and groups of tenants are far from those that distributions and container engines give away. Their numbers never
// change: files of running members belong to them.
const (
	// FirstUser is added to the first host port of a tenant, which no other tenant without a port pool has.
	FirstUser int64 = 1_000_000_000
	// FirstHashedUser begins those of tenants on the pod network, which have no ports of hosts, and of tenants in port pools, which may
	// have the same ports.
	FirstHashedUser int64 = 1_100_000_000
	// HashedUsers is how many those are.
	HashedUsers int64 = 1_000_000_000
)

// IsTenantsUser reports whether a user or group may be that of a tenant.
func IsTenantsUser(id int64) bool { return id >= FirstUser && id < FirstHashedUser+HashedUsers }
