// Package backups is the manager's part of the backup of a tenant's data etcd. Members take, verify and keep snapshots by
// themselves, also while nobody hears of them (controlplane/etcd/agent). The manager writes the files that tell them how,
// asks them what there is, and keeps an object for each snapshot. Everything here but the requests to members is pure.
package backups
