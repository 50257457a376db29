// Package serve takes snapshots of an etcd beside each of its members, and tells the manager of them.
//
// # Who takes snapshots
//
// One member is on duty: the first healthy follower by name, or the leader where there is none. Each member finds that out by
// itself, by etcd's list of members and what each of them says. No lock is needed: of two that are on duty at once, one stores
// the snapshot of a slot, and the other is told that it is there.
//
// # What it does
//
// Each round reads the files of the manager's Secret again, and takes at most one step: take the snapshot of the present slot,
// verify it and delete what expired; or verify one that is not. The manager may ask a member for the snapshot of a slot of its
// own, whoever is on duty. What failed is tried again, after 30 seconds at first and 5 minutes at the most; a snapshot that its
// trial refused is not.
//
// Where each member has a volume of its own for snapshots, each copies what the others verified and its volume lacks, about once a minute, and
// deletes by itself what expired. See docs/decisions/etcd.md#every-member-keeps-every-snapshot.
//
// # What it promises
//
//   - Whatever fails, the program goes on, and the report says what and which field is wrong.
//   - Only the manager is answered, and the other members where they copy: by TLS, to a certificate of the given CA and common name.
//     Certificates are files, and are read again when they change.
//   - An answer never waits for the store: it has what was listed last.
package serve
