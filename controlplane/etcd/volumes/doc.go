// Package volumes makes the volume claims of an etcd cluster ask for more space when a person wants larger volumes. Decide, which is pure,
// chooses the claims.
package volumes
