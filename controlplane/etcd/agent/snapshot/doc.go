// Package snapshot takes snapshots of a live member of etcd into a store, verifies them, lists them, says which may go, and
// restores one into an empty data directory. It salvages the data of a survivor into one, too.
//
// # What makes a snapshot
//
// There is at most one of each slot of time. Its object is uploaded first, under a name of its own, and its manifest after
// that, only if there is none: what has no manifest is no snapshot. So whoever takes one may be killed at any time, and two who
// take the same slot need no lock.
//
// # What Verified means
//
// The object was downloaded, decrypted and unpacked, has the hashes of its manifest and etcd's own, was restored into a scratch
// directory, and etcd started there: it has the revision of the manifest, the same compact revision, and the same hash over all
// keys and their history as the member had. A verification beside the manifest says so.
//
// # What is salvaged
//
// All entries of the survivor's log, also those that it did not know to be committed: docs/decisions/etcd.md#a-survivors-log-is-salvaged-on-a-copy.
// In the data directory that is made, under .kok-restore, are one after the other
//
//	copy        what the survivor has, where the log is repaired and made committed, and etcd is started by force
//	snapshot.db what etcd gave of it; the copy goes then
//	data        what is restored of that, and takes its place by a rename
//
// # What it promises
//
//   - What a survivor has is not changed.
//   - What is restored is there whole, or not at all, and never on top of data.
//   - What is restored of a full etcd has no alarm NOSPACE, with which it would take no writes.
//   - A snapshot is deleted only when there is a newer one that is verified.
//   - Snapshots that others may have changed are read by a child process: they may end it, and not this one.
package snapshot
