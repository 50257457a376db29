// Package tenantapi connects managers with the API servers of tenants. It does not trust the administrators of tenants.
//
// A [Guard] checks all answers of one tenant: they are bounded, not compressed, and redirect nowhere. A tenant that breaks
// this again and again is left alone for a growing time. Requests of a control plane's manager pass the Guard by [Guard.Wrap].
//
// Cluster API's ClusterCache reaches tenants through a [Gate], a proxy on the manager's loopback:
// docs/decisions/security.md#clustercache-goes-through-a-gate-of-ours.
package tenantapi
