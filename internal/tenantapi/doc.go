// Package tenantapi is how managers speak with the API servers of tenants. The administrators of tenants are
// not trusted.
//
// A [Guard] stands before one tenant: what comes from there is bounded, uncompressed and leads nowhere else, and a
// tenant that goes on to break this is left alone for a time that grows. Requests of a control plane's manager pass it
// by [Guard.Wrap].
//
// Cluster API's ClusterCache reaches tenants through a [Gate], a proxy on the manager's loopback:
// docs/decisions/security.md#clustercache-goes-through-a-gate-of-ours.
package tenantapi
