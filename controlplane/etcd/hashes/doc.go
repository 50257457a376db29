// Package hashes decides which members of an etcd cluster have other data than the rest, by hashes of all that members have up to
// one revision. It is pure: package operator asks members for their hashes, and keeps the [Memory].
//
// # What it promises
//
//   - A member differs only when a majority of the voters agrees, and it differs from that. Without a majority none is chosen.
//   - A member that does not answer is no evidence, for or against any.
//   - One comparison is not enough: the next one, at another revision, must say the same. A compaction may make hashes differ
//     for a moment.
//   - Hashes of other versions of etcd, or of other compactions, are not compared.
package hashes
