// Package look looks at the data directory of an etcd member that does not run, and says what etcd will find there. It reads
// as etcd does, with etcd's own packages, and judges as etcd does when it starts. Beside that it finds a log that ends too
// early, of which etcd takes no notice.
//
// # What it promises
//
//   - It writes nothing into the directory: files are opened for reading alone, and what etcd repairs is only told.
//   - It ends in time. What was found until then counts.
//   - It needs no more memory than one entry of the log, one snapshot file, and about 100 bytes for each page of the database.
//   - A damaged database may end the program that reads it: bbolt looks at pages in goroutines of its own, and a page that
//     the disk does not give is a signal. So all reading is done by a child process, see Child and Main.
//
// # What etcd does, and this with it
//
//   - A last record of the last file of the log that is cut off, or has a sector of zeros, is a write that a loss of power
//     interrupted: etcd cuts it off (wal.Repair). Anywhere else it is damage.
//   - A file of a snapshot that is damaged is passed over for an older one; without any, the log is read from its beginning.
//   - A database that is older than the snapshot is replaced by the one that the leader sent, if it is there.
//   - One of the two meta pages of the database may be damaged: etcd goes on from the other one.
//   - bbolt looks at all pages when etcd opens the database, because etcd does not write the list of free ones down.
package look
