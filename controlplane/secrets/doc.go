// Package secrets reads and writes Secrets of a tenant, in the management cluster and in the host cluster.
//
// It reads from a cache, and writes only what it has decided on a reading of the API server ([Access.Settle]): a cache may be late, and may lack
// Secrets that the controller did not make. Of several writers the API server accepts one, and the others decide again.
package secrets
