// Package tenantapi is how managers speak with the API servers of tenants. The administrators of tenants are
// not trusted.
//
// A [Guard] stands before one tenant: what comes from there is bounded, uncompressed and leads nowhere else, and a
// tenant that goes on to break this is left alone for a time that grows. Requests of a control plane's manager pass it
// by [Guard.Wrap].
//
// Cluster API's ClusterCache takes no transport. It gets a [Gate]: a proxy on the manager's loopback that passes
// requests on by a Guard, and that holds the credentials. The Gate's reader of Secrets gives ClusterCache kubeconfigs
// that lead to the Gate and to nobody else, and refuses those that would read a file of the manager or run a program.
package tenantapi
