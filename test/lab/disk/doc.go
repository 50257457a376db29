// Package disk is a disk that can be slow, fail, be full and lose what was not synced: a FUSE file system that covers a directory, as
// the programs of one mount namespace see it. What they write goes to the directory itself, which nobody else sees covered.
//
// A loss of power takes back what was written, cut and allocated since the last sync of each file. Names stay: those of files that were
// made, moved or removed are as a file system with a journal keeps them.
//
// The process that covers a directory serves it. It must not use what it covers itself, nor start a program there: a page fault, or a
// fork, would wait for an answer that nobody gives. When it ends, the programs that use the disk get errors, and none of them hangs.
package disk
